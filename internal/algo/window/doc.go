// Package window decides how many bytes each connection of a gathering server may have under
// way, by its advertised window, and how many connections a client's upload is made of. That way
// each client gets its target, by priority, by means of the receiver alone (papers 003 and 001).
//
// Why it is so: docs/decisions.md#gathering.
//
// A Controller is told what was seen, every half second, and says what to set:
//
//	observe ─▶ Facts ─▶ Controller.Step ─▶ Decision ─▶ apply
//
// Decisions are in the order of the facts: Decision.Shares[i] is of Facts.Clients[i], and its
// Windows[j] of Connections[j].
//
// There is one for each method that the papers describe, for comparison, and our own:
//
//	groupcast    ours, below; the default
//	gathering    003 §III-A (Assign) and §III-B (parallel.Search)
//	buffers      003 §III-A alone, with one connection
//	proposed     001: a total by round trips, initial connections before persistent ones
//	spring       001's reference 1: the link and the queue before it are known
//	mehra        001's reference 2: what is received is taken to be the link's rate
//	matsuo       003's compared method: by estimates of what TCP would get
//	traditional  nothing is touched
//
// # Our own
//
// A connection brings one window per round trip. So windows that together hold what the access link
// holds without a queue fill the link and leave the queue empty, and windows that are a few percent too large
// make a queue of these few percent. groupcast plans rates, and makes windows of them:
//
//		round trips, throughputs ─▶ capacity: what the link gives
//		                                │
//		policy ─▶ claims ──────────▶ divide ─▶ rates ─▶ windows, connections
//		                 ▲                       │
//		   what each can use, its own path       └─ corrected by what they bring
//
//	  - The capacity is what comes while a queue stands. While none stands and the plan is used, the plan
//	    grows, faster with every step, so that bandwidth that comes back is used within seconds.
//	  - divide gives targets, and the rest by their ratio. What a client does not use, others
//	    get. If the targets do not fit: minimums, then by priority; if not even these: by ratio.
//	  - Others that are not controlled here may fill the queue: a queue that stays although our windows
//	    leave it no room is theirs (contest). Then what targets need is reckoned with that queue and
//	    with a reserve, a client is given what it missed, and it has more connections, so that a loss
//	    does not cost it half its window.
//	  - A client's own path, which it does not share with the other clients, is dealt with in the same way.
//	  - A connection is accepted with a window that is enough for most short ones. While it may turn out to be one, it
//	    keeps what it is told at its first step. A client that has more than its part by many of them has none.
//
// # What the facts may be
//
// Anything. Clients control when their segments are sent and acknowledged, and with that what is
// measured of them. A round trip that is zero, negative or an hour counts as unknown, as do
// throughputs that no link has. A round trip that is too long for no reason makes a window too large,
// which shows in what comes.
package window
