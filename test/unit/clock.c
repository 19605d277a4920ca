/*-------------------------------------------------------------------------
 *
 * clock.c
 *	  A clock that can be set: preloaded by the dynamic linker into a server,
 *	  it adds the seconds that the file CLOCK_FILE holds to the time of day.
 *
 * The monotonic clock is left alone, as when somebody sets the real one.
 * Built and used by test/t/065_clock.pl.
 *
 *-------------------------------------------------------------------------
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long
offset(void)
{
	const char *name = getenv("CLOCK_FILE");
	char		text[32];
	ssize_t		n;
	int			fd;

	if (name == NULL || (fd = open(name, O_RDONLY)) < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	return atol(text);
}

int
clock_gettime(clockid_t clock, struct timespec *now)
{
	static int	(*real) (clockid_t, struct timespec *);
	int			rc;

	if (real == NULL)
		*(void **) &real = dlsym(RTLD_NEXT, "clock_gettime");
	rc = real(clock, now);
	if (rc == 0 && clock == CLOCK_REALTIME)
		now->tv_sec += offset();
	return rc;
}

int
gettimeofday(struct timeval *now, void *zone)
{
	struct timespec time;

	(void) zone;
	if (clock_gettime(CLOCK_REALTIME, &time) != 0)
		return -1;
	now->tv_sec = time.tv_sec;
	now->tv_usec = time.tv_nsec / 1000;
	return 0;
}

time_t
time(time_t *seconds)
{
	struct timespec now;

	if (clock_gettime(CLOCK_REALTIME, &now) != 0)
		return -1;
	if (seconds != NULL)
		*seconds = now.tv_sec;
	return now.tv_sec;
}
