# lib.sh: what test/run, demo/run and .ci/run share.  Source it from bash.
#
# The life of a run has two halves.  Outside, as whoever called: install what
# is missing, copy the sources into a scratch folder, build, stage.  Inside,
# never as root: start private servers in the scratch folder and use them.
# Nothing but packages reaches the system's own folders, and no server
# listens anywhere but on a socket in the scratch folder.

set -u -o pipefail

say() { printf '== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# ---------------------------------------------------------------------------
# Packages

apt_get() {
	local sudo=
	if [ "$(id -u)" != 0 ]; then
		command -v sudo >/dev/null ||
			die "missing packages, and no sudo to install them; as root: apt-get $*"
		sudo='sudo'
	fi
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}

# need PACKAGE...: install those that are missing.
need() {
	local p missing=()

	command -v dpkg-query >/dev/null || return 0
	for p; do
		[ "$(dpkg-query -W -f '${db:Status-Status}' "$p" 2>/dev/null)" = installed ] ||
			missing+=("$p")
	done
	[ ${#missing[@]} = 0 ] && return 0
	say "installing ${missing[*]}"
	apt_get update >/dev/null || say "apt-get update failed, trying with the lists there are"
	local out
	out=$(apt_get install --no-install-recommends "${missing[@]}" 2>&1) ||
		{ tail -n 20 <<<"$out" >&2; die "could not install ${missing[*]}"; }
}

# The drivers of test/clients.
packages_clients='libpq-dev libdbd-pg-perl python3 python3-psycopg2 python3-psycopg python3-asyncpg
	ruby-pg php-cli php-pgsql'
packages_clients=$(echo $packages_clients)

# The same for a package that brings a service, which is to stay off.
need_without_service() {
	local package=$1 policy=/usr/sbin/policy-rc.d sudo= rc

	[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] &&
		return 0
	command -v dpkg-query >/dev/null || return 0
	[ "$(id -u)" = 0 ] || sudo=sudo
	if [ -e $policy ]; then
		policy=
	else
		printf '#!/bin/sh\nexit 101\n' | $sudo tee $policy >/dev/null
		$sudo chmod +x $policy
	fi
	(need "$package")
	rc=$?
	[ -z "$policy" ] || $sudo rm -f "$policy"
	! [ -d /run/systemd/system ] || $sudo systemctl -q disable "$package"
	return $rc
}

# The server package would create and start a cluster of its own.  Nobody
# asked for one, so tell it not to while it installs.
need_server() {
	local dir=/etc/postgresql-common/createcluster.d
	local file=$dir/inbox-test.conf sudo=

	[ -x "/usr/lib/postgresql/$1/bin/postgres" ] && return 0
	[ "$(id -u)" = 0 ] || sudo=sudo
	$sudo mkdir -p $dir
	echo 'create_main_cluster = false' | $sudo tee $file >/dev/null
	(need "postgresql-$1")
	local rc=$?
	$sudo rm -f $file
	return $rc
}

# The newest release that is installed with its headers, else the newest that
# apt offers.
newest_release() {
	local v

	v=$(ls -d /usr/include/postgresql/*/server/postgres.h 2>/dev/null |
		sed 's|.*/postgresql/\([0-9]*\)/.*|\1|' | awk '$1 >= 15' | sort -n | tail -1)
	if [ -z "$v" ] && command -v apt-cache >/dev/null; then
		v=$(apt-cache search --names-only '^postgresql-server-dev-[0-9]+$' |
			sed 's/^postgresql-server-dev-\([0-9]*\) .*/\1/' | awk '$1 >= 15' |
			sort -n | tail -1)
	fi
	echo "$v"
}

# find_server: set PG_CONFIG, and BINDIR, PGXS, VERSION from it.
find_server() {
	local v

	if [ -z "${PG_CONFIG:-}" ] || ! command -v "$PG_CONFIG" >/dev/null; then
		[ -z "${PG_CONFIG:-}" ] || [ "$PG_CONFIG" = pg_config ] ||
			die "PG_CONFIG=$PG_CONFIG is no program"
		PG_CONFIG=
	fi
	if [ -z "$PG_CONFIG" ]; then
		v=$(newest_release)
		if [ -z "$v" ]; then
			say "apt-get update"
			apt_get update >/dev/null
			v=$(newest_release)
		fi
		[ -n "$v" ] || die "no PostgreSQL 15 or newer, installed or to be had; set PG_CONFIG"
		need_server "$v" || exit 1
		need "postgresql-server-dev-$v"
		PG_CONFIG=/usr/lib/postgresql/$v/bin/pg_config
	fi
	BINDIR=$("$PG_CONFIG" --bindir)
	PGXS=$("$PG_CONFIG" --pgxs)
	PGXS=${PGXS%/src/makefiles/pgxs.mk}
	VERSION=$("$PG_CONFIG" --version | sed 's/^PostgreSQL //; s/ .*//')
	[ -x "$BINDIR/postgres" ] || die "no server in $BINDIR"
	[ -d "$PGXS" ] || die "PostgreSQL $VERSION has no development files; install postgresql-server-dev-${VERSION%%.*}"
	export PG_CONFIG BINDIR PGXS VERSION
}

# ---------------------------------------------------------------------------
# Outside: scratch folder, build, stage, change of user

# make_scratch NAME: a folder that whoever runs the servers owns.
make_scratch() {
	local base=${TMPDIR:-/tmp}

	# a socket path may have no more than 107 bytes
	[ ${#base} -le 48 ] || base=/tmp
	SCRATCH=$(mktemp -d "$base/inbox-$1.XXXXXX") || exit 1
	export SCRATCH
	mkdir "$SCRATCH/src" "$SCRATCH/log"
}

# A fresh copy every time: never an object of another server or of another
# user, and nothing is left behind in the tree.
copy_sources() {
	local top=$1
	(cd "$top" && tar cf - --exclude='*.o' --exclude='*.so' --exclude='*.bc' --exclude=test/bench/results \
		Makefile *.control META.json src $(ls -d sql expected test demo docs README.md 2>/dev/null)) |
		tar xf - -C "$SCRATCH/src" || die "could not copy the sources"
}

# Write the lines every private server needs to find what we built.  Debian's
# servers know extension_destdir, 18 and newer extension_control_path; with
# either nothing is installed.  Other servers get a real installation.
# A name that the server exports too would be the server's on some platforms.
check_symbols() {
	local both

	both=$(comm -12 \
		<(nm -D --defined-only "$BINDIR/postgres" | awk '{print $3}' | sort -u) \
		<(nm -D --defined-only "$SCRATCH/src/inbox.so" | awk '{print $3}' |
			grep -vE '^(_init|_fini|_edata|_end|__bss_start)$' | sort -u))
	[ -z "$both" ] || die "the server exports these names too: $both"
}

build_and_stage() {
	local gucs lib stage=$SCRATCH/stage
	local args=(-s -C "$SCRATCH/src" "PG_CONFIG=$PG_CONFIG" "COPT=${COPT:-}" with_llvm=no)

	unset MAKEFLAGS MAKELEVEL MFLAGS
	say "building for PostgreSQL $VERSION"
	make "${args[@]}" -j2 all || die "the build failed"
	check_symbols

	gucs=$("$BINDIR/postgres" --describe-config | cut -f1)
	lib=$("$PG_CONFIG" --pkglibdir)
	: >"$SCRATCH/stage.conf"
	if grep -qx extension_destdir <<<"$gucs"; then
		make "${args[@]}" install "DESTDIR=$stage" >/dev/null || die "make install failed"
		cat >"$SCRATCH/stage.conf" <<-CONF
		extension_destdir = '$stage'
		dynamic_library_path = '$stage$lib:$lib'
		CONF
	elif grep -qx extension_control_path <<<"$gucs"; then
		make "${args[@]}" install "DESTDIR=$stage" >/dev/null || die "make install failed"
		cat >"$SCRATCH/stage.conf" <<-CONF
		extension_control_path = '$stage$("$PG_CONFIG" --sharedir):\$system'
		dynamic_library_path = '$stage$lib:$lib'
		CONF
	elif [ -w "$lib" ]; then
		make "${args[@]}" install >/dev/null || die "make install failed"
	else
		say "this server can't load from a staging folder: installing into $lib"
		sudo make "${args[@]}" install >/dev/null || die "make install failed"
	fi
}

# go_inside SCRIPT ARG...: run a script of the copy in the scratch folder,
# as an ordinary user: the server refuses to run as root.
go_inside() {
	local script=$SCRATCH/src/$1; shift
	if [ "$(id -u)" = 0 ]; then
		local user=${TEST_USER:-postgres}
		id "$user" >/dev/null 2>&1 || user=nobody
		chown -R "$user" "$SCRATCH"
		(cd "$SCRATCH" && HOME=$SCRATCH exec runuser -u "$user" -- bash "$script" "$@")
	else
		(cd "$SCRATCH" && exec bash "$script" "$@")
	fi
}

# ---------------------------------------------------------------------------
# Inside: private servers

# server NAME LINE...: make, start and select (PGHOST, PGPORT) a server whose
# configuration ends with these lines.
server() {
	local name=$1 dir=$SCRATCH/server/$1; shift

	mkdir -p "$SCRATCH/server" "$SCRATCH/sock/$name"
	if ! [ -d "$SCRATCH/template" ]; then
		"$BINDIR/initdb" -D "$SCRATCH/template" -A trust -N -U postgres \
			--encoding=UTF8 --locale=C >"$SCRATCH/log/initdb" 2>&1 ||
			{ cat "$SCRATCH/log/initdb"; die "initdb failed"; }
	fi
	cp -a "$SCRATCH/template" "$dir"
	{
		cat "$SCRATCH/stage.conf"
		printf '%s\n' "listen_addresses = ''" "port = 5432" \
			"unix_socket_directories = '$SCRATCH/sock/$name'" \
			"shared_buffers = 64MB" "max_worker_processes = 32" \
			"max_prepared_transactions = 10" "fsync = off" \
			"log_line_prefix = '%m [%p] %q%a '" "$@"
	} >>"$dir/postgresql.conf"
	use_server "$name"
	start_server "$name"
}

use_server() {
	export PGHOST=$SCRATCH/sock/$1 PGPORT=5432 PGUSER=postgres PGDATABASE=postgres
}

start_server() {
	"$BINDIR/pg_ctl" -D "$SCRATCH/server/$1" -l "$SCRATCH/log/server-$1" -w -t 180 start \
		>/dev/null </dev/null || { tail -20 "$SCRATCH/log/server-$1"; die "server $1 did not start"; }
}

stop_server() {
	"$BINDIR/pg_ctl" -D "$SCRATCH/server/$1" -m "${2:-immediate}" -w stop >/dev/null 2>&1
}

# Whatever has a postmaster.pid below the scratch folder is ours.
stop_all_servers() {
	local pid
	find "$SCRATCH" -name postmaster.pid 2>/dev/null | while read -r pid; do
		"$BINDIR/pg_ctl" -D "$(dirname "$pid")" -m immediate -w stop >/dev/null 2>&1
	done
}

q() { "$BINDIR/psql" -XAtq -v ON_ERROR_STOP=1 "$@"; }
