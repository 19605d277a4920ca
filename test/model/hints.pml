/*
 * hints.pml
 *	  The protocol of src/hints.c, for the model checker Spin.
 *
 * Four keys on two levels of priority, three transactions, one scenario at a
 * time (scenarios.pml).  README.md says what is proven and how to read this.
 *
 * Each d_step or atomic block is what the server does at once: one critical
 * section of the hints, one look at a row, one row lock, one commit.
 */

#define NKEYS	4			/* a row each */
#define SPLIT	2			/* the first key of the second level */
#define NXACTS	3
#define NCOVERS	3			/* the three ledgers, of one cover each: */
#define ENTERED	0
#define EXTENDED 1
#define NOTED	2
#define NRETRIES 2
#define MAXLOG	4
#define NEVER	100
#define NONE	9
#define LEN		2			/* of a lease; two ticks are one grain of the ledger */
#define BY_HAND	16			/* a lease made by hand: no telling it from a claim's */

#define BIT(k)		(1 << (k))
#define KEYS(a, b)	((BIT((b) + 1) - 1) & ~(BIT(a) - 1))
#define HAS(set, k)	(((set) >> (k)) & 1)

/*
 * The rules, and in brackets where hints.c tells of them.  "broken" is the one
 * left out in this run; zero: none.
 */
byte broken;
#define WITHOUT(rule)	(broken == (rule))

#define R_TELL_AFTER		1	/* tell when visible, not before (1) */
#define R_ABORT_OPENS		2	/* an aborted claim opens its keys (1) */
#define R_SUBABORT_OPENS	3	/* so does a savepoint rolled back (1) */
#define R_LOG_ALWAYS		4	/* log what was open already too (1) */
#define R_NEW_KEY			5	/* a retry opens its new key (1) */
#define R_SILENT			6	/* an UPDATE that changes no state opens (1) */
#define R_DUE_LOGGED		7	/* what a cover opens is logged (1) */
#define R_READ_FIRST		8	/* hints first, rows after (2) */
#define R_LIMIT				9	/* pass only below what was opened since (3) */
#define R_LOG_REACH			10	/* pass nothing when the log wrapped (3) */
#define R_OWN_PASS			11	/* abort opens what was passed (4) */
#define R_NOTE_FIRST		12	/* note a lease that is passed (5) */
#define R_RELY				13	/* others' cover is not enough (5) */
#define R_LOCKED			14	/* pass no locked row of others (6) */
#define R_RETRY				15	/* and a claimer's only with a retry (6) */
#define R_NOT_DUE			16	/* stop at what is not due (7) */
#define R_FILTER			17	/* a filtered claim passes nothing (7) */
#define R_TAKE_OFF			18	/* take off at commit, not before */
#define R_SUM				19	/* done is count and sum zero */
#define R_EXTENSION			20	/* an extension enters its new end */
#define R_PREPARE			21	/* PREPARE is no commit */
#define R_WATCH				22	/* a prepared transaction is watched */
#define R_PREPARED_LEASE	23	/* its leases too */
#define R_JOINED_LOOK		24	/* a joined cover is due with its first */
#define R_ENTER				25	/* a committed claim enters its leases */
#define R_OLD_LOG			26	/* forgetting all spoils old readings */
#define R_HAND_NOTE			27	/* a lease made by hand is noted */
#define R_RESERVE_LIMIT		28	/* reserve only below what was opened since (4) */
#define R_RESERVE_ABORT		29	/* abort opens what was reserved (4) */
#define R_RESERVE_LEFT		30	/* open again what of it is not taken (4) */
#define R_RESERVE_NOTE		31	/* note a lease that was reserved (5) */
#define R_DELAYED_LOOK		32	/* what is noted as not due is looked at then (7) */
#define R_REACHED			99	/* none: shows that the end is reached */

byte clock, last_tick;

/*
 * Rows: the committed version, and the one somebody is writing.
 */
#define ABSENT	0
#define READY	1
#define LEASED	2
byte state[NKEYS];
byte until[NKEYS];
byte lease[NKEYS];			/* which; for the sums */
byte due[NKEYS];
byte writer[NKEYS];			/* a transaction, or zero */
byte new_state[NKEYS];
byte new_until[NKEYS];
byte new_lease[NKEYS];

/*
 * Transactions, by number from 1.
 */
bool running[NXACTS + 1];
bool claimer[NXACTS + 1];	/* has claimed and not yet told */
byte ended;
byte nxacts;
/* of a walk under way: keys whose new version its index page may lack */
bool walking[NXACTS + 1];
byte unread[NXACTS + 1];	/* being written since the page was read */
byte missed[NXACTS + 1];	/* committed since */
byte changed[NXACTS + 1];	/* committed since the row was looked at */

/*
 * Hints.
 */
byte open;					/* a set of keys; ranges are runs of bits */
byte generation;
byte log_size;
byte log[MAXLOG];
typedef Cover {
	bool used;
	byte first;
	byte last;
	byte look;
	short count;
	int sum;
	bool keep;
	byte lo;
	byte hi;
};
Cover cover[NCOVERS];
int stale;					/* the leases that nobody enters any more */
typedef Retry {
	bool used;
	byte xid;				/* the prepared transaction, or zero */
	byte when;
	byte lo;
	byte hi;
};
Retry retry[NRETRIES];

hidden byte i, j, k, low;
hidden byte found;
hidden int h;

#define MIN(a, b)	((a) < (b) -> (a) : (b))
#define MAX(a, b)	((a) > (b) -> (a) : (b))

/* ---------------------------------------------------------------------
 * hints.c, hintwalk.c and hintdue.c.  To be used within d_step.
 * --------------------------------------------------------------------- */

inline open_keys(a, b, logged)
{
	if
	:: (logged) && !(WITHOUT(R_LOG_ALWAYS) && (open & KEYS(a, b)) == KEYS(a, b)) ->
		log[generation % log_size] = a;
		generation++
	:: else
	fi;
	open = open | KEYS(a, b)
}

inline open_due(t)
{
	i = 0;
	do
	:: i < NCOVERS ->
		if
		:: cover[i].used && cover[i].look <= t ->
			open_keys(cover[i].lo, cover[i].hi, !WITHOUT(R_DUE_LOGGED));
			cover[i].look = NEVER;
			cover[i].keep = 1
		:: else
		fi;
		if
		:: cover[i].used && cover[i].look == NEVER && cover[i].last <= t -> forget_cover(i)
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NRETRIES ->
		if
		:: retry[i].used && retry[i].when <= t && !running[retry[i].xid] ->
			open_keys(retry[i].lo, retry[i].hi, 1);
			forget_retry(i)
		:: else
		fi;
		i++
	:: else -> break
	od
}

inline forget_cover(c)
{
	cover[c].used = 0;
	cover[c].first = 0;
	cover[c].last = 0;
	cover[c].look = 0;
	cover[c].count = 0;
	cover[c].sum = 0;
	cover[c].keep = 0;
	cover[c].lo = 0;
	cover[c].hi = 0
}

inline forget_retry(r)
{
	retry[r].used = 0;
	retry[r].xid = 0;
	retry[r].when = 0;
	retry[r].lo = 0;
	retry[r].hi = 0
}

/*
 * cover_for, and the joining that follows when all covers are used up.
 */
inline cover_for(c, u, a, b)
{
	if
	:: !cover[c].used ->
		cover[c].used = 1;
		cover[c].first = (u) - (u) % 2;
		cover[c].last = cover[c].first + 2;
		cover[c].look = NEVER;
		cover[c].lo = a;
		cover[c].hi = b
	:: else ->
		cover[c].first = MIN(cover[c].first, (u) - (u) % 2);
		cover[c].last = MAX(cover[c].last, (u) - (u) % 2 + 2);
		cover[c].lo = MIN(cover[c].lo, a);
		cover[c].hi = MAX(cover[c].hi, b)
	fi
}

inline enter(c, u, a, b, n, s)
{
	if
	:: (u) <= clock -> open_keys(a, b, 1)
	:: else ->
		cover_for(c, u, a, b);
		cover[c].count = cover[c].count + n;
		cover[c].sum = cover[c].sum + s;
		if
		:: cover[c].look == NEVER || !WITHOUT(R_JOINED_LOOK) ->
			cover[c].look = MIN(cover[c].look, u)
		:: else -> cover[c].look = MAX(cover[c].look, u)
		fi
	fi
}

inline note(u, a, b)
{
	cover_for(NOTED, u, a, b);
	cover[NOTED].keep = 1;
	cover[NOTED].look = MIN(cover[NOTED].look, u)
}

#define FITS(c, u, a, b)	(cover[c].used && cover[c].first <= (u) && \
							 cover[c].last > (u) && cover[c].lo <= (a) && cover[c].hi >= (b))

inline take_off(u, a, b, n, s)
{
	i = (FITS(ENTERED, u, a, b) -> ENTERED : (FITS(EXTENDED, u, a, b) -> EXTENDED : NONE));
	if
	:: i != NONE ->
		cover[i].count = cover[i].count - n;
		cover[i].sum = cover[i].sum - s;
		if
		:: cover[i].count == 0 && !cover[i].keep &&
			(cover[i].sum == 0 || WITHOUT(R_SUM)) -> forget_cover(i)
		:: else
		fi
	:: else
	fi
}

/*
 * HintsPassLeased; "told" is a lease claimed since the hints were forgotten.
 */
inline pass_leased(u, a, b, told)
{
	i = 0;
	found = 0;
	do
	:: i < NCOVERS ->
		if
		:: FITS(i, u, a, b) && cover[i].look <= (u) &&
			(cover[i].keep || (cover[i].count > 0 && ((told) || WITHOUT(R_RELY)))) ->
			found = 1
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: !found && !WITHOUT(R_NOTE_FIRST) -> note(u, a, b)
	:: else
	fi
}

/*
 * HintsPass
 */
inline pass_keys(g, a, b)
{
	low = NKEYS;
	i = g;
	if
	:: generation - g > log_size && WITHOUT(R_LOG_REACH) -> i = generation - log_size
	:: else
	fi;
	if
	:: generation - g > log_size && !WITHOUT(R_LOG_REACH) -> low = 0
	:: else ->
		do
		:: i < generation ->
			low = MIN(low, log[i % log_size]);
			i++
		:: else -> break
		od
	fi;
	if
	:: WITHOUT(R_LIMIT) -> low = NKEYS
	:: else
	fi;
	if
	:: low > (b) -> open = open & ~KEYS(a, b)
	:: low <= (b) && low > (a) -> open = open & ~KEYS(a, low - 1)
	:: else
	fi
}

inline add_retry(x, a, b, t)
{
	i = 0;
	j = NONE;
	do
	:: i < NRETRIES ->
		if
		:: retry[i].used && retry[i].xid == (x) -> j = i
		:: !retry[i].used && j == NONE -> j = i
		:: else
		fi;
		i++
	:: else -> break
	od;
	if
	:: j != NONE && retry[j].used ->
		retry[j].lo = MIN(retry[j].lo, a);
		retry[j].hi = MAX(retry[j].hi, b)
	:: j != NONE && !retry[j].used ->
		retry[j].used = 1;
		retry[j].xid = x;
		retry[j].when = (t) + 1;
		retry[j].lo = a;
		retry[j].hi = b
	:: else
	fi
}

inline forget_all()
{
	open = KEYS(0, NKEYS - 1);
	generation = generation + (WITHOUT(R_OLD_LOG) -> 0 : log_size + 1);
	stale = 0;
	i = 0;
	do
	:: i < NKEYS ->
		stale = stale | (state[i] == LEASED -> BIT(lease[i]) : 0);
		stale = stale | (new_state[i] == LEASED -> BIT(new_lease[i]) : 0);
		i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NCOVERS -> forget_cover(i); i++
	:: else -> break
	od;
	i = 0;
	do
	:: i < NRETRIES -> forget_retry(i); i++
	:: else -> break
	od
}

/* ---------------------------------------------------------------------
 * Rows
 * --------------------------------------------------------------------- */

/* distinct leases add up to distinct sums */
inline hash_of(l)
{
	h = 1;
	j = 0;
	do
	:: j < (l) -> h = h * 3; j++
	:: else -> break
	od
}

inline write_row(x, key, s, u, l)
{
	writer[key] = x;
	new_state[key] = s;
	new_until[key] = u;
	new_lease[key] = l;
	i = 1;
	do
	:: i <= NXACTS ->
		if
		:: walking[i] && i != (x) -> unread[i] = unread[i] | BIT(key)
		:: else
		fi;
		i++
	:: else -> break
	od
}

inline unwrite_row(key)
{
	writer[key] = 0;
	new_state[key] = 0;
	new_until[key] = 0;
	new_lease[key] = 0;
	i = 1;
	do
	:: i <= NXACTS -> unread[i] = unread[i] & ~BIT(key); i++
	:: else -> break
	od
}

inline commit_row(key)
{
	state[key] = new_state[key];
	until[key] = new_until[key];
	lease[key] = new_lease[key];
	i = 1;
	do
	:: i <= NXACTS ->
		if
		:: walking[i] ->
			changed[i] = changed[i] | BIT(key);
			missed[i] = missed[i] | (unread[i] & BIT(key))
		:: else
		fi;
		i++
	:: else -> break
	od;
	unwrite_row(key)
}

/* all rows of a transaction at once */
inline end_rows(x, commits)
{
	k = 0;
	do
	:: k < NKEYS ->
		if
		:: writer[k] == (x) && (commits) -> commit_row(k)
		:: writer[k] == (x) && !(commits) -> unwrite_row(k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	running[x] = 0
}

/* where a transaction is */
#define RESERVE		16		/* a walk: the row at cur is claimable */
#define DELAYED		18		/* the row at cur is not due, and to be noted */
#define AGAIN		17		/* others have passed it: read the hints again */
#define READ		1		/* a walk: read the hints */
#define LOOK		2		/* read the row at cur */
#define TAKE		3		/* and try to take it */
#define NOTE		4
#define PASS		5
#define ROW			6		/* something else than a claim */
#define SUBEND		7		/* the savepoint is over */
#define SUBTELL		8
#define END			9
#define TELL_COMMIT	10
#define TELL_ABORT	11
#define TELL_PREPARE 12
#define TOLD		13
#define RESOLVE		14		/* COMMIT PREPARED, ROLLBACK PREPARED */
#define OVER		15

/* ---------------------------------------------------------------------
 * A transaction: one or two things done, perhaps in a savepoint, and an end
 * --------------------------------------------------------------------- */

/* what is done; "arg" is the row, where it is about one */
#define NOTHING		0
#define CLAIM		1		/* arg rows at most */
#define CLAIM_LAST	2		/* with a filter: the last key only */
#define SEND		3
#define RELEASE		4
#define DONE		5
#define MOVE		6		/* a retry: the row gets the last key */
#define EXTEND		7
#define TOUCH		8		/* UPDATE that changes neither place nor lease */
#define REMOVE		9		/* DELETE */
#define HAND_LEASE	10
#define FORGET		11		/* a setting has changed: HintsOpenAll */

/* how it may end: a set */
#define COMMIT		1
#define ABORT		2
#define PREPARE		4
/* and what is in a savepoint: a set */
#define FIRST		1
#define SECOND		2

/* pending.c's list: one joined entry of each kind, at each of two levels */
typedef Pending {
	byte leases;			/* how many */
	byte lease_lo;
	byte lease_hi;
	byte lease_until;
	int lease_sum;
	byte offs;
	byte off_lo;
	byte off_hi;
	byte off_until;
	int off_sum;
	byte extends;
	byte ext_lo;
	byte ext_hi;
	byte ext_until;
	int ext_sum;
	byte notes;
	byte note_lo;
	byte note_hi;
	byte note_until;
	bool opens;
	byte open_lo;
	byte open_hi;
	bool open_all;
	byte passed;			/* a set of keys */
};

#define P	pending[level]

inline join_entry(count_, lo_, hi_, until_, ka, kb, ku)
{
	if
	:: count_ == 0 -> lo_ = ka; hi_ = kb; until_ = ku
	:: else -> lo_ = MIN(lo_, ka); hi_ = MAX(hi_, kb); until_ = MIN(until_, ku)
	fi;
	count_++
}

inline pend_open(a, b)
{
	if
	:: !P.opens -> P.opens = 1; P.open_lo = a; P.open_hi = b
	:: else -> P.open_lo = MIN(P.open_lo, a); P.open_hi = MAX(P.open_hi, b)
	fi
}

inline pend_off(key)
{
	hash_of(lease[key]);
	if
	:: WITHOUT(R_TAKE_OFF) -> take_off(until[key], key, key, 1, h)
	:: else ->
		join_entry(P.offs, P.off_lo, P.off_hi, P.off_until, key, key, until[key]);
		P.off_sum = P.off_sum + h
	fi
}

/*
 * What is told at the end, one entry at a time; in any order, which is more
 * than the server does.  "lv" is the level that ends.
 */
inline tell_commit(lv)
{
	if
	:: pending[lv].leases ->
		d_step {
			if
			:: WITHOUT(R_ENTER)
			:: else ->
				enter(ENTERED, pending[lv].lease_until, pending[lv].lease_lo,
					  pending[lv].lease_hi, pending[lv].leases, pending[lv].lease_sum)
			fi;
			clear_leases(lv)
		}
	:: pending[lv].offs ->
		d_step {
			take_off(pending[lv].off_until, pending[lv].off_lo,
					 pending[lv].off_hi, pending[lv].offs, pending[lv].off_sum);
			clear_offs(lv)
		}
	:: pending[lv].extends ->
		d_step {
			if
			:: WITHOUT(R_EXTENSION)
			:: else ->
				enter(EXTENDED, pending[lv].ext_until, pending[lv].ext_lo,
					  pending[lv].ext_hi, pending[lv].extends, pending[lv].ext_sum)
			fi;
			clear_extends(lv)
		}
	:: pending[lv].notes ->
		d_step {
			if
			:: pending[lv].note_until <= clock || WITHOUT(R_HAND_NOTE) ->
				open_keys(pending[lv].note_lo, pending[lv].note_hi, 1)
			:: else ->
				note(pending[lv].note_until, pending[lv].note_lo, pending[lv].note_hi)
			fi;
			clear_notes(lv)
		}
	:: pending[lv].opens ->
		d_step {
			open_keys(pending[lv].open_lo, pending[lv].open_hi, 1);
			clear_opens(lv)
		}
	:: pending[lv].open_all ->
		d_step { forget_all(); pending[lv].open_all = 0 }
	:: else -> pc = TOLD
	fi
}

inline tell_abort(lv)
{
	d_step {
		if
		:: pending[lv].leases ->
			if
			:: WITHOUT(R_ABORT_OPENS) || (WITHOUT(R_SUBABORT_OPENS) && lv == 1)
			:: else -> open_keys(pending[lv].lease_lo, pending[lv].lease_hi, 1)
			fi;
			clear_leases(lv)
		:: else ->
			k = 0;
			do
			:: k < NKEYS && HAS(pending[lv].passed, k) && !WITHOUT(R_OWN_PASS) ->
				open_keys(k, k, 1);
				pending[lv].passed = pending[lv].passed & ~BIT(k);
				break
			:: k < NKEYS && !(HAS(pending[lv].passed, k) && !WITHOUT(R_OWN_PASS)) -> k++
			:: k >= NKEYS -> pc = TOLD; break
			od;
			k = 0
		fi
	}
}

inline watch(a, b)
{
	if
	:: WITHOUT(R_WATCH)
	:: else -> add_retry(x, a, b, clock)
	fi
}

/* the rows stay locked meanwhile */
inline tell_prepare()
{
	d_step {
		if
		:: pending[0].leases ->
			enter(ENTERED, pending[0].lease_until, pending[0].lease_lo,
				  pending[0].lease_hi, pending[0].leases, pending[0].lease_sum);
			if
			:: WITHOUT(R_PREPARED_LEASE)
			:: else -> watch(pending[0].lease_lo, pending[0].lease_hi)
			fi
		:: else
		fi;
		if
		:: pending[0].extends ->
			enter(EXTENDED, pending[0].ext_until, pending[0].ext_lo,
				  pending[0].ext_hi, pending[0].extends, pending[0].ext_sum)
		:: else
		fi;
		if
		:: pending[0].notes ->
			note(pending[0].note_until, pending[0].note_lo, pending[0].note_hi);
			watch(pending[0].note_lo, pending[0].note_hi)
		:: else
		fi;
		if
		:: pending[0].opens -> watch(pending[0].open_lo, pending[0].open_hi)
		:: else
		fi;
		if
		:: pending[0].open_all -> watch(0, NKEYS - 1)
		:: else
		fi;
		k = 0;
		do
		:: k < NKEYS ->
			if
			:: HAS(pending[0].passed, k) -> watch(k, k)
			:: else
			fi;
			k++
		:: else -> break
		od;
		clear_pending(0);
		k = 0;
		pc = TOLD
	}
}

inline clear_leases(lv)
{
	pending[lv].leases = 0; pending[lv].lease_lo = 0; pending[lv].lease_hi = 0;
	pending[lv].lease_until = 0; pending[lv].lease_sum = 0
}

inline clear_offs(lv)
{
	pending[lv].offs = 0; pending[lv].off_lo = 0; pending[lv].off_hi = 0;
	pending[lv].off_until = 0; pending[lv].off_sum = 0
}

inline clear_extends(lv)
{
	pending[lv].extends = 0; pending[lv].ext_lo = 0; pending[lv].ext_hi = 0;
	pending[lv].ext_until = 0; pending[lv].ext_sum = 0
}

inline clear_notes(lv)
{
	pending[lv].notes = 0; pending[lv].note_lo = 0; pending[lv].note_hi = 0;
	pending[lv].note_until = 0
}

inline clear_opens(lv)
{
	pending[lv].opens = 0; pending[lv].open_lo = 0; pending[lv].open_hi = 0
}

inline clear_pending(lv)
{
	clear_leases(lv); clear_offs(lv); clear_extends(lv);
	clear_notes(lv); clear_opens(lv);
	pending[lv].open_all = 0; pending[lv].passed = 0
}

/* ---------------------------------------------------------------------
 * walk.c
 * --------------------------------------------------------------------- */

#define WROTE	(writer[0] == x || writer[1] == x || writer[2] == x || writer[3] == x)

/*
 * WalkBegin
 */
inline read_hints()
{
	t = clock;
	wrote = WROTE;
	passing = what == CLAIM || WITHOUT(R_FILTER);
	walking[x] = 1;
	read_view()
}

inline read_view()
{
	open_due(t);
	view = open | (P.opens -> KEYS(P.open_lo, P.open_hi) : 0) |
		(pending[0].opens -> KEYS(pending[0].open_lo, pending[0].open_hi) : 0) |
		(pending[0].leases && pending[0].lease_until <= t ->
			KEYS(pending[0].lease_lo, pending[0].lease_hi) : 0);
	seen_gen = generation
}

/*
 * To pass is two critical sections: a run of leased rows is noted first.
 * "goes_on" is where the next pass begins.
 */
inline pass_to(to, goes_on)
{
	if
	:: passing && from <= (to) ->
		goal = to;
		next_from = goes_on;
		pc = (run_until -> NOTE : PASS)
	:: else -> from = MAX(from, goes_on)
	fi
}

inline note_run()
{
	pass_leased(run_until, run_lo, run_hi, run_told);
	run_until = 0; run_lo = 0; run_hi = 0; run_told = 0
}

inline pass_now()
{
	if
	:: wrote -> P.passed = P.passed | KEYS(from, goal)
	:: else
	fi;
	if
	:: WITHOUT(R_READ_FIRST) -> seen_gen = generation
	:: else
	fi;
	pass_keys(seen_gen, from, goal);
	from = next_from;
	goal = 0;
	next_from = 0
}

/*
 * WalkReserve: pass the row at hand and those behind it, of its level and of
 * its range, as many as are wanted; keys without a row count, too.  "from" is
 * behind "cur" while the walk goes over what it has reserved.
 */
#define RESERVED	(from > cur)

inline reserve()
{
	goal = cur;
	do
	:: goal + 1 < NKEYS && goal + 1 != SPLIT && HAS(view, goal + 1) &&
		(due[goal + 1] <= t || WITHOUT(R_NOT_DUE)) &&
		goal + 1 < cur + arg - taken -> goal++
	:: else -> break
	od;
	if
	:: WITHOUT(R_RESERVE_LIMIT) -> seen_gen = generation
	:: else
	fi;
	pass_keys(seen_gen, from, goal);
	low = MIN(low, goal + 1);
	if
	:: low > cur ->
		P.passed = P.passed | (WITHOUT(R_RESERVE_ABORT) -> 0 : KEYS(from, low - 1));
		from = low
	:: else
	fi;
	goal = 0;
	low = 0
}

/* an error in the midst of a walk */
inline fail()
{
	end_walk();
	if
	:: level == 1 -> roll_back_savepoint(); pc = SUBTELL
	:: else -> end_rows(x, 0); k = 0; pc = TELL_ABORT
	fi
}

/* the row at hand is left behind; at the end of a level it is passed */
inline step_on()
{
	cur++;
	if
	:: cur == SPLIT && pc == LOOK -> pass_to(SPLIT - 1, SPLIT)
	:: else
	fi
}

/*
 * The row at hand, as the walk sees it: s, u, l.  A version that came after
 * the index was read may be missed.
 */
inline look_at(key)
{
	if
	:: writer[key] == x ->
		s = new_state[key]; u = new_until[key]; l = new_lease[key]
	:: writer[key] != x ->
		s = state[key]; u = until[key]; l = lease[key]
	:: writer[key] != x && HAS(missed[x], key) ->
		s = ABSENT; u = 0; l = 0
	fi;
	changed[x] = 0
}

/* the run of live leases at hand; one run is all of one grain */
inline add_leased(key)
{
	if
	:: run_until && run_until / 2 != u / 2 && passing -> note_run()
	:: else
	fi;
	if
	:: run_until == 0 -> run_lo = key; run_until = u; run_told = 1
	:: else -> run_until = MIN(run_until, u)
	fi;
	run_told = run_told && !HAS(stale, l);
	run_hi = key
}

inline end_walk()
{
	walking[x] = 0;
	unread[x] = 0; missed[x] = 0; changed[x] = 0;
	run_until = 0; run_lo = 0; run_hi = 0; run_told = 0;
	view = 0; seen_gen = 0; cur = 0; from = 0; taken = 0; t = 0;
	s = 0; u = 0; l = 0; passing = 0; wrote = 0
}

/*
 * close_level.  From the row at cur on, the level is noted for when that row
 * comes due, and passed.
 */
inline pass_delayed()
{
	k = (cur < SPLIT -> SPLIT : NKEYS);
	j = due[cur] + (WITHOUT(R_DELAYED_LOOK) -> 1 : 0);
	note(j, cur, k - 1);
	j = 0;
	noting = 0;
	pc = LOOK;
	pass_to(k - 1, k);
	cur = k;
	k = 0
}

/*
 * WalkNext.  A walk goes by levels, and by runs of open keys within them; at
 * the beginning of each it reads the index.
 */
inline next_row()
{
	if
	:: (cur >= NKEYS || taken >= arg) && passing && from < cur -> pass_to(cur - 1, cur)
	:: (cur >= NKEYS || taken >= arg) && !(passing && from < cur) ->
		d_step {
			if
			:: run_until && passing && !WITHOUT(R_RESERVE_NOTE) -> note_run()
			:: else
			fi;
			end_walk(); did()
		}
	:: !(cur >= NKEYS || taken >= arg) && !HAS(view, cur) ->
		pass_to(cur - 1, cur + 1);
		cur++
	:: !(cur >= NKEYS || taken >= arg) && HAS(view, cur) ->
		if
		:: cur == 0 -> unread[x] = 0; missed[x] = 0
		:: cur == SPLIT -> unread[x] = 0; missed[x] = 0
		:: cur != 0 && cur != SPLIT && !HAS(view, cur - 1) -> unread[x] = 0; missed[x] = 0
		:: else
		fi;
		look_at(cur);
		/* where the open set is full, note what is not due, and pass it */
		if
		:: s == READY && due[cur] > t && passing && !WITHOUT(R_NOT_DUE) -> noting = 1
		:: noting = 0
		fi;
		d_step {
			if
			:: s == LEASED && u > t -> add_leased(cur); step_on()
			:: s == READY && due[cur] > t ->
				/* the level is over */
				k = (cur < SPLIT -> SPLIT : NKEYS);
				if
				:: noting -> pc = DELAYED
				:: !noting && WITHOUT(R_NOT_DUE) -> pass_to(cur, k); cur = k
				:: else -> pass_to(cur - 1, k); cur = k
				fi;
				k = 0
			:: (s == READY && due[cur] <= t) || (s == LEASED && u <= t) ->
				if
				:: what == CLAIM_LAST && cur != NKEYS - 1 -> step_on()
				:: else -> pc = (passing && !RESERVED -> RESERVE : TAKE)
				fi
			:: s == ABSENT -> step_on()
			fi;
			s = 0; u = 0; l = 0
		}
	fi
}

/*
 * take_row, WalkTook.  The row is taken, or somebody has it locked, or it has
 * changed since we looked.
 */
inline take(late_pass)
{
	if
	:: (writer[cur] == 0 && !HAS(changed[x], cur)) || writer[cur] == x ->
		write_row(x, cur, LEASED, t + LEN, NKEYS + (x - 1) * NKEYS + cur);
		hash_of(NKEYS + (x - 1) * NKEYS + cur);
		join_entry(P.leases, P.lease_lo, P.lease_hi, P.lease_until,
				   cur, cur, t + LEN);
		P.lease_sum = P.lease_sum + h;
		claimer[x] = 1;
		taken++;
		sub_rows = sub_rows | (level == 1 -> BIT(cur) : 0);
		pc = LOOK;
		if
		:: late_pass -> step_on()
		:: else -> pass_to(cur, cur + 1); cur++
		fi
	:: else ->
		pc = LOOK;
		if
		:: passing && (writer[cur] == 0 || claimer[writer[cur]] || WITHOUT(R_LOCKED)) ->
			if
			:: WITHOUT(R_RETRY) || WITHOUT(R_LOCKED)
			:: else -> add_retry(0, cur, cur, t)
			fi;
			step_on()
		:: else ->
			if
			:: RESERVED && !WITHOUT(R_RESERVE_LEFT) -> open_keys(cur, cur, 1)
			:: else
			fi;
			pass_to(cur - 1, cur + 1);
			cur++
		fi
	fi
}

/* ---------------------------------------------------------------------
 * The other things a transaction does to a row; it waits for the lock.
 * A lease is found by its number, so it must be the one there was.
 * --------------------------------------------------------------------- */

#define HELD(key)	(state[key] == LEASED && lease[key] == key)

inline do_row(key)
{
	if
	:: writer[key] == x
	:: writer[key] != x && what == SEND && state[key] == ABSENT ->
		write_row(x, key, READY, 0, 0);
		pend_open(key, key)
	:: writer[key] != x && what == RELEASE && HELD(key) ->
		pend_off(key);
		write_row(x, key, READY, 0, 0);
		pend_open(key, key)
	:: writer[key] != x && what == DONE && HELD(key) ->
		pend_off(key);
		write_row(x, key, ABSENT, 0, 0)
	:: writer[key] != x && what == MOVE && HELD(key) ->
		pend_off(key);
		write_row(x, key, ABSENT, 0, 0);
		write_row(x, NKEYS - 1, READY, 0, 0);
		k = (WITHOUT(R_NEW_KEY) -> key : NKEYS - 1);
		pend_open(k, k);
		k = 0
	:: writer[key] != x && what == EXTEND && HELD(key) ->
		pend_off(key);
		join_entry(P.extends, P.ext_lo, P.ext_hi, P.ext_until,
				   key, key, clock + LEN);
		hash_of(key);
		P.ext_sum = P.ext_sum + h;
		write_row(x, key, LEASED, clock + LEN, key)
	:: writer[key] != x && what == TOUCH && state[key] != ABSENT ->
		write_row(x, key, state[key], until[key], lease[key]);
		if
		:: WITHOUT(R_SILENT)
		:: !WITHOUT(R_SILENT) && state[key] == READY -> pend_open(key, key)
		:: !WITHOUT(R_SILENT) && state[key] != READY ->
			join_entry(P.notes, P.note_lo, P.note_hi, P.note_until,
					   key, key, until[key])
		fi
	:: writer[key] != x && what == REMOVE && state[key] != ABSENT ->
		write_row(x, key, ABSENT, 0, 0)
	:: writer[key] != x && what == HAND_LEASE && state[key] == READY ->
		write_row(x, key, LEASED, clock + LEN, BY_HAND);
		join_entry(P.notes, P.note_lo, P.note_hi, P.note_until,
				   key, key, clock + LEN)
	:: what == FORGET -> P.open_all = 1
	:: else
	fi;
	sub_rows = sub_rows | (level == 1 && writer[key] == x -> BIT(key) : 0)
}

/* ---------------------------------------------------------------------
 * The transaction.  Each option of its loop is one step; "pc" is where it is.
 * --------------------------------------------------------------------- */

/* the thing at hand is done; what next? */
inline did()
{
	if
	:: level == 1 && (savepoint == step || step == 2) -> pc = SUBEND
	:: else -> go_on()
	fi
}

inline go_on()
{
	step++;
	what = (step == 1 -> first : second);
	arg = (step == 1 -> arg1 : arg2);
	if
	:: step == 3 || what == NOTHING -> pc = END
	:: else ->
		if
		:: savepoint == step || (savepoint == 3 && step == 1) -> level = 1
		:: else
		fi;
		pc = (what == CLAIM || what == CLAIM_LAST -> READ : ROW)
	fi
}

inline roll_back_savepoint()
{
	k = 0;
	do
	:: k < NKEYS ->
		if
		:: HAS(sub_rows, k) -> unwrite_row(k)
		:: else
		fi;
		k++
	:: else -> break
	od;
	k = 0;
	sub_rows = 0
}

inline release_savepoint()
{
	level = 0;
	if
	:: pending[1].leases ->
		k = pending[0].leases;
		join_entry(P.leases, P.lease_lo, P.lease_hi, P.lease_until,
				   pending[1].lease_lo, pending[1].lease_hi, pending[1].lease_until);
		P.leases = k + pending[1].leases;
		P.lease_sum = P.lease_sum + pending[1].lease_sum
	:: else
	fi;
	if
	:: pending[1].offs ->
		k = pending[0].offs;
		join_entry(P.offs, P.off_lo, P.off_hi, P.off_until,
				   pending[1].off_lo, pending[1].off_hi, pending[1].off_until);
		P.offs = k + pending[1].offs;
		P.off_sum = P.off_sum + pending[1].off_sum
	:: else
	fi;
	if
	:: pending[1].opens -> pend_open(pending[1].open_lo, pending[1].open_hi)
	:: else
	fi;
	P.passed = P.passed | pending[1].passed;
	clear_pending(1);
	sub_rows = 0;
	k = 0
}

inline finish()
{
	if
	:: level == 1 -> clear_pending(1); level = 0; go_on()
	:: else ->
		if
		:: WITHOUT(R_TELL_AFTER) && running[x] && !preparing -> end_rows(x, 1); k = 0
		:: else
		fi;
		claimer[x] = 0;
		clear_pending(0);
		what = 0; arg = 0; step = 0;
		pc = (preparing -> RESOLVE : OVER)
	fi
}

#define PENDS(lv)	(pending[lv].leases || pending[lv].offs || pending[lv].extends || \
					 pending[lv].notes || pending[lv].opens || pending[lv].open_all || \
					 pending[lv].passed)

proctype xact(byte x, first, arg1, second, arg2, ends, savepoint)
{
	Pending pending[2];
	byte pc, level, sub_rows, step, what, arg;
	bool preparing;
	/* of a walk */
	byte t, view, seen_gen, cur, from, taken, s, u, l, goal, next_from;
	byte run_until, run_lo, run_hi;
	bool run_told, passing, wrote, again, noting;

	d_step { running[x] = 1; go_on() };
	do
	:: d_step { pc == READ -> read_hints(); pc = LOOK }
	:: atomic { pc == LOOK -> next_row() }
	:: d_step { pc == LOOK && cur < NKEYS && taken < arg && passing && !RESERVED &&
			HAS(view, cur) && !HAS(open, cur) -> pc = AGAIN; pass_to(cur - 1, cur); again = pc != AGAIN }
	:: d_step { pc == AGAIN -> read_view(); view = view & ~(BIT(cur) - 1); pc = LOOK }
	:: d_step { pc == DELAYED -> pass_delayed() }
	:: d_step { pc == RESERVE && run_until -> note_run() }
	:: d_step { pc == RESERVE && !run_until && HAS(open, cur) -> reserve(); pc = TAKE }
	/* if it may not, or need not, reserve: the row is its own, or opened since */
	:: d_step { pc == RESERVE -> pc = TAKE }
	:: d_step { (pc == TAKE || pc == LOOK) && RESERVED && (level == 1 || (ends & ABORT)) -> fail() }
	:: d_step { pc == TAKE -> take(0) }
	/* several may be taken before they are passed */
	:: d_step { pc == TAKE && arg > 1 -> take(1) }
	:: d_step { pc == NOTE -> note_run(); pc = PASS }
	:: d_step { pc == PASS -> pass_now(); pc = (again -> AGAIN : LOOK); again = 0 }
	:: d_step { pc == ROW && (writer[arg] == 0 || writer[arg] == x) &&
			(what != MOVE || writer[NKEYS - 1] == 0) -> do_row(arg); did() }
	:: d_step { pc == SUBEND -> roll_back_savepoint(); pc = SUBTELL }
	:: d_step { pc == SUBEND -> release_savepoint(); go_on() }
	:: atomic { pc == SUBTELL -> tell_abort(1) }
	:: d_step { pc == END && (ends & COMMIT) ->
			if
			:: WITHOUT(R_TELL_AFTER)
			:: else -> end_rows(x, 1); k = 0
			fi;
			pc = TELL_COMMIT
		}
	:: d_step { pc == END && (ends & ABORT) -> end_rows(x, 0); k = 0; pc = TELL_ABORT }
	:: d_step { pc == END && (ends & PREPARE) -> preparing = 1;
			pc = (WITHOUT(R_PREPARE) -> TELL_COMMIT : TELL_PREPARE) }
	:: atomic { pc == TELL_COMMIT -> tell_commit(0) }
	:: atomic { pc == TELL_ABORT -> tell_abort(0) }
	:: atomic { pc == TELL_PREPARE -> tell_prepare() }
	:: d_step { pc == TOLD -> finish() }
	:: d_step { pc == RESOLVE -> end_rows(x, 1); k = 0; preparing = 0; pc = OVER }
	:: d_step { pc == RESOLVE -> end_rows(x, 0); k = 0; preparing = 0; pc = OVER }
	:: pc == OVER -> break
	od;
	ended++
}

/* ---------------------------------------------------------------------
 * The property
 * --------------------------------------------------------------------- */

#define WATCHED(k)	((retry[0].used && retry[0].lo <= k && retry[0].hi >= k) || \
					 (retry[1].used && retry[1].lo <= k && retry[1].hi >= k))
#define COVERED(c, k, by)	(cover[c].used && cover[c].look <= (by) && \
							 cover[c].lo <= k && cover[c].hi >= k)
#define LOOKED_AT(k, by)	(HAS(open, k) || WATCHED(k) || COVERED(0, k, by) || \
							 COVERED(1, k, by) || COVERED(2, k, by))
#define KEPT(k)		(state[k] == ABSENT || \
					 (state[k] == READY && LOOKED_AT(k, MAX(due[k], clock))) || \
					 (state[k] == LEASED && LOOKED_AT(k, MAX(until[k], clock))))

active proctype ticking()
{
	do
	:: d_step { clock < last_tick -> clock++ }
	:: clock >= last_tick && last_tick != NEVER -> break
	od
}
