/*
 * scenarios.pml
 *	  What the model is tried on.  Each scenario is a queue as it may be found,
 *	  and the transactions that then run, in every order.
 *
 * "run" checks them one by one; their numbers are its arguments.
 */

#include "hints.pml"

byte scenario;

/* rows, with their keys in the open set or not */
inline ready(key) { state[key] = READY }

/* a lease with the number of its key, entered or not */
inline leased(key, u)
{
	state[key] = LEASED; until[key] = u; lease[key] = key;
	open = open & ~BIT(key);
	hash_of(key);
	enter(ENTERED, u, key, key, 1, h)
}

inline strange(key, u)
{
	state[key] = LEASED; until[key] = u; lease[key] = key;
	stale = stale | BIT(key)
}

inline shut(a, b) { open = open & ~KEYS(a, b) }

#define ONE(x, what, arg, ends)		run xact(x, what, arg, NOTHING, 0, ends, 0)
#define TWO(x, a, arga, b, argb, ends)	run xact(x, a, arga, b, argb, ends, 0)

init {
	byte n;

	d_step {
		c_code {
			now.scenario = atoi(getenv("SCENARIO"));
			now.broken = atoi(getenv("WITHOUT"));
		};
		open = KEYS(0, NKEYS - 1);
		log_size = MAXLOG;
		n = 2
	};
	if
	/* a sender with an earlier key commits late */
	:: scenario == 1 -> atomic {
		ready(1); ready(2); n = 3; last_tick = 0;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT); ONE(3, SEND, 0, COMMIT | ABORT) }
	/* two senders, one on each level; a claim of two rows */
	:: scenario == 2 -> atomic {
		ready(1); ready(3); n = 3; last_tick = 0;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, SEND, 0, COMMIT); ONE(3, SEND, 2, COMMIT) }
	/* a release, behind the position */
	:: scenario == 3 -> atomic {
		d_step { leased(0, 6); ready(1); ready(2) }; n = 3; last_tick = 0;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT); ONE(3, RELEASE, 0, COMMIT) }
	/* a release, of a row whose key is open */
	:: scenario == 4 -> atomic {
		d_step { leased(0, 6); ready(1); open = KEYS(0, 3) }; n = 3; last_tick = 0;
		ONE(1, CLAIM, 1, ABORT); ONE(2, CLAIM, 1, COMMIT); ONE(3, RELEASE, 0, COMMIT) }
	/* a lease ends behind the position, another on the other level */
	:: scenario == 5 -> atomic {
		d_step { leased(0, 1); ready(1); leased(2, 2) }; last_tick = 2;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 2, COMMIT) }
	/* an extension while the lease ends */
	:: scenario == 6 -> atomic {
		d_step { leased(0, 1); ready(1) }; last_tick = 2;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, EXTEND, 0, COMMIT | ABORT) }
	/* an UPDATE of something else, of a ready and of a leased row */
	:: scenario == 7 -> atomic {
		ready(0); ready(1); last_tick = 0;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, TOUCH, 1, COMMIT | ABORT) }
	:: scenario == 8 -> atomic {
		strange(0, 1); ready(1); last_tick = 1;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, TOUCH, 0, COMMIT | ABORT) }
	/* a settlement rolls back, and the lease ends */
	:: scenario == 9 -> atomic {
		d_step { leased(0, 1); ready(1) }; last_tick = 1;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, DONE, 0, COMMIT | ABORT) }
	/* a retry moves a row to the other level */
	:: scenario == 10 -> atomic {
		d_step { leased(0, 6); ready(1); shut(3, 3) }; n = 3; last_tick = 0;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT); ONE(3, MOVE, 0, COMMIT) }
	/* claims with and without a filter */
	:: scenario == 11 -> atomic {
		ready(0); ready(1); ready(3); n = 3; last_tick = 0;
		ONE(1, CLAIM_LAST, 1, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT | ABORT); ONE(3, SEND, 2, COMMIT) }
	/* settle a lease that is over, and claim; the transaction may roll back */
	:: scenario == 12 -> atomic {
		strange(0, 0); ready(1); ready(2); last_tick = 0;
		TWO(1, DONE, 0, CLAIM, 1, COMMIT | ABORT | PREPARE); ONE(2, CLAIM, 2, COMMIT | ABORT) }
	/* delete by hand, and claim */
	:: scenario == 13 -> atomic {
		ready(0); ready(1); ready(2); last_tick = 0;
		run xact(1, REMOVE, 0, CLAIM, 1, COMMIT | ABORT | PREPARE, FIRST | SECOND); ONE(2, CLAIM, 1, COMMIT | ABORT) }
	/* claim, and then change a row by hand that others walk over */
	:: scenario == 14 -> atomic {
		ready(0); ready(1); ready(2); last_tick = 0;
		TWO(1, CLAIM, 1, REMOVE, 1, COMMIT | ABORT | PREPARE); ONE(2, CLAIM, 2, COMMIT) }
	/* change a row by hand, without a claim */
	:: scenario == 15 -> atomic {
		ready(0); ready(1); last_tick = 0;
		ONE(1, REMOVE, 0, COMMIT | ABORT | PREPARE); ONE(2, CLAIM, 2, COMMIT) }
	/* a lease made by hand, among others' that are settled */
	:: scenario == 16 -> atomic {
		d_step { leased(0, 2); leased(2, 2); ready(1) }; n = 3; last_tick = 0;
		ONE(1, HAND_LEASE, 1, COMMIT | ABORT); TWO(2, DONE, 0, DONE, 2, COMMIT); ONE(3, CLAIM, 1, COMMIT) }
	/* a lease from before a restart, among others' that are settled */
	:: scenario == 17 -> atomic {
		d_step { leased(0, 2); leased(2, 2); strange(1, 2) }; last_tick = 1;
		TWO(1, DONE, 0, DONE, 2, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT) }
	/* claims that are prepared */
	:: scenario == 18 -> atomic {
		ready(0); ready(2); n = 2; last_tick = 1;
		ONE(1, CLAIM, 2, COMMIT | PREPARE); ONE(2, CLAIM, 2, COMMIT | ABORT) }
	/* a settlement and a send that are prepared, a release too */
	:: scenario == 19 -> atomic {
		d_step { leased(0, 1); ready(2) }; n = 2; last_tick = 1;
		TWO(1, DONE, 0, SEND, 1, PREPARE); ONE(2, CLAIM, 2, COMMIT) }
	:: scenario == 20 -> atomic {
		d_step { leased(0, 6); ready(2) }; n = 2; last_tick = 0;
		ONE(1, RELEASE, 0, PREPARE); ONE(2, CLAIM, 2, COMMIT | ABORT) }
	/* claims in savepoints, rolled back or released */
	:: scenario == 21 -> atomic {
		ready(0); ready(1); ready(2); last_tick = 0;
		run xact(1, CLAIM, 1, CLAIM, 1, COMMIT | ABORT, FIRST); ONE(2, CLAIM, 1, COMMIT | ABORT) }
	:: scenario == 22 -> atomic {
		ready(0); ready(1); ready(2); last_tick = 0;
		run xact(1, CLAIM, 1, CLAIM, 2, COMMIT | ABORT, SECOND); ONE(2, CLAIM, 1, COMMIT) }
	/* leases that are in no ledger */
	:: scenario == 23 -> atomic {
		strange(0, 1); ready(1); strange(2, 2); last_tick = 2;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 2, COMMIT) }
	/* more openings than the log remembers */
	:: scenario == 24 -> atomic {
		ready(2); n = 3; last_tick = 0; log_size = 1;
		ONE(1, CLAIM, 1, COMMIT); ONE(2, SEND, 0, COMMIT); ONE(3, SEND, 1, COMMIT) }
	/* rows that are not due */
	:: scenario == 25 -> atomic {
		ready(0); due[0] = 1; ready(2); ready(3); due[3] = 1; last_tick = 1;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT) }
	/* leases that end far apart, in one cover */
	:: scenario == 26 -> atomic {
		d_step { leased(0, 1); leased(1, 3); ready(2) }; last_tick = 3;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, DONE, 0, COMMIT | ABORT) }
	:: scenario == 27 -> atomic {
		d_step { leased(0, 1); leased(1, 3); ready(2) }; last_tick = 1;
		ONE(1, EXTEND, 1, COMMIT | ABORT); ONE(2, CLAIM, 2, COMMIT) }
	/* a lease that was never entered is taken off among those that were */
	:: scenario == 28 -> atomic {
		d_step { leased(0, 2); leased(2, 2); strange(1, 2); shut(0, 2) }; last_tick = 0;
		TWO(1, DONE, 1, DONE, 0, COMMIT); ONE(2, CLAIM, 1, COMMIT) }
	/* a transaction that claims twice, and outlives its leases */
	:: scenario == 29 -> atomic {
		ready(0); ready(1); last_tick = 2;
		TWO(1, CLAIM, 1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT) }
	/* what was known is forgotten */
	:: scenario == 30 -> atomic {
		d_step { leased(0, 2); ready(1); ready(2) }; n = 3; last_tick = 0;
		ONE(1, CLAIM, 1, COMMIT); ONE(2, FORGET, 0, COMMIT | ABORT | PREPARE); ONE(3, CLAIM, 1, COMMIT | ABORT) }
	/* two claimers on a revisit, and a release of another */
	:: scenario == 31 -> atomic {
		d_step { ready(0); leased(1, 6); ready(2); open = BIT(0) | KEYS(2, 3) }; n = 3; last_tick = 0;
		ONE(1, CLAIM, 1, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT); ONE(3, RELEASE, 1, COMMIT) }
	/* a send into what a claim reserves */
	:: scenario == 32 -> atomic {
		ready(0); n = 3; last_tick = 0;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, SEND, 1, COMMIT | ABORT); ONE(3, CLAIM, 1, COMMIT) }
	/* a lease that is in no ledger, in what a claim reserves */
	:: scenario == 33 -> atomic {
		ready(0); strange(1, 2); last_tick = 2;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, CLAIM, 2, COMMIT) }
	/* claims of two that meet, in savepoints */
	:: scenario == 34 -> atomic {
		ready(0); ready(1); ready(2); last_tick = 0;
		run xact(1, CLAIM, 2, CLAIM, 1, COMMIT | ABORT, FIRST); ONE(2, CLAIM, 1, COMMIT) }
	/* a send ahead of a row that is not due */
	:: scenario == 35 -> atomic {
		ready(1); due[1] = 1; ready(2); last_tick = 1;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, SEND, 0, COMMIT | ABORT) }
	/* rows that are not due, noted along with a lease that is in no ledger */
	:: scenario == 36 -> atomic {
		strange(0, 2); ready(1); due[1] = 1; ready(3); due[3] = 2; last_tick = 2;
		ONE(1, CLAIM, 2, COMMIT | ABORT); ONE(2, CLAIM, 1, COMMIT | ABORT) }
	fi;
	nxacts = n;
	ended == nxacts;
	d_step {
		assert(!WITHOUT(R_REACHED));
		k = 0;
		do
		:: k < NKEYS ->
			assert(KEPT(k));
			k++
		:: else -> break
		od;
		k = 0
	}
}
