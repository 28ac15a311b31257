package window

import "time"

// mode says what the targets are up against.
type mode int

const (
	open      mode = iota // the targets are met, or could be
	trying                // less is planned, to see whether the queue goes
	short                 // the link has less than the targets
	contested             // others, whom nobody controls here, fill the queue
)

// contest finds out why targets are not met while a queue stands. Either the link has less than
// the targets together: then planning for what it has takes the queue away, and priority
// decides who gets it. Or others fill the queue: then planning for less only leaves them more.
// From outside both look the same, so it tries: it plans for less. If less comes then, although a queue
// stands, others have taken it, and trying or short becomes contested at once. So does open if others were
// taken to have gone a moment ago.
//
//	open ──targets missed, a queue stands──▶ trying ──the queue goes──▶ short
//	  ▲                                      ▲ │                        │ │
//	  │                       they stay so, ─┘ │    ┌───it comes back───┘ │ the targets fit
//	  │                     later every time   │    │   and is long       │
//	  │                               it stays ▼    ▼                     │ or after a time,
//	  ├──no queue for a while───────────── contested                      │ longer every time
//	  └───────────────────────────────────────────────────────────────────┘
type contest struct {
	// everybody is whether the link is the one of all clients, the access link. On the path of a single client, others come and
	// go all the time: what is learnt of them is not kept.
	everybody bool

	mode   mode
	since  time.Time // when the mode began
	missed int       // steps in a row in which targets were missed while a queue stood
	calm   int       // steps in a row without a queue
	queued int       // steps in a row with one
	// others is who fills a queue that is not of our making: ours goes in a few steps, is short, and loses nothing.
	others crowd
	// peak is the most that was delivered without a queue: if that comes, nobody else is there.
	peak  Rate
	queue time.Duration
	again time.Duration // how soon to try again
	less  Rate          // what came when others were taken to be there
	// before is what came when less began to be planned, and share which share of the targets that was.
	before Rate
	share  float64
	taken  int // steps in a row in which less comes although a queue stands
	gone   int // steps in a row without the queue that the try is to take away
	// believed is how long to believe that the link is short. Little that comes beside others looks the same as all that
	// comes over a narrow link: only planning for more can tell.
	believed time.Duration
}

const (
	// missedShare is the share of the targets below which they count as missed, and missedSteps for how many steps that
	// has to be.
	missedShare, missedSteps = .93, 3
	// tryFor is how long a try takes: what was granted has to be used up, and measured.
	tryFor = 2 * time.Second
	// tellingTrips is how many round trips it takes until what comes tells of the link, and not of how a sender begins, or of what it lost.
	tellingTrips = 6
	// calmSteps is how many steps without a queue it takes until others are taken to have gone.
	calmSteps = 4
	// nobodyShare is a share of the peak: if more comes, nobody else is there.
	nobodyShare = .93
	// crowdedSteps is after how many steps a standing queue is taken not to be of our making.
	crowdedSteps = 3
	// peakKept is the part of the peak that is left after each step.
	peakKept = .999
	// lastAgain is how long to wait, while targets are missed, before trying again whether others have gone. If taking it for
	// a contest has gained nothing, perhaps nobody was there: then it is firstAgain the first time, and twice as long every
	// time after that.
	firstAgain, lastAgain = 4 * time.Second, time.Minute
	// gained is how many times what came before has to come for something to be gained.
	gained = 1.2
	// lost is the part of what came before below which others must have taken something, if that lasts takenSteps: while a
	// queue stands, the link gives all that it has.
	lost, takenSteps = .85, 2
	// goneSteps is how many steps it takes without a queue until that has gone: those of others come and go.
	goneSteps = 2
	// firstBelieved is how long to believe the first time that a link is short, and twice as long every time after that, up to
	// lastBelieved: planning for more, to see whether it still is, fills its queue for a second or two.
	firstBelieved, lastBelieved = 20 * time.Second, 10 * time.Minute
)

func (c *contest) step(now time.Time, seen summary) mode {
	standing := seen.stands(seen.delivered)
	missed, queued := seen.missed(), seen.queue > standing
	c.missed, c.calm, c.queued = c.missed+1, c.calm+1, c.queued+1
	if !missed || !queued {
		c.missed = 0
	}
	if queued {
		c.calm = 0
	}
	// Short transfers make queues that go by themselves, and a plan for all that a short link has makes a short queue. While as
	// much comes as without a queue, nobody else has come to a short link.
	ours := seen.initial > seen.later || c.mode == short && (seen.queue <= 2*standing || seen.delivered > nobodyShare*c.peak)
	if !queued || ours {
		c.queued = 0
	}
	if !queued {
		c.peak = max(peakKept*c.peak, seen.delivered)
	} else if c.mode != short { // on a short link others who come little by little would never be noticed
		c.peak *= peakKept
	}
	c.taken, c.gone = c.taken+1, c.gone+1
	if !c.everybody || seen.queue < leastQueue || seen.delivered > lost*c.before || seen.share() > lost*c.share {
		c.taken = 0
	}
	if seen.queue >= max(standing, c.queue/2) {
		c.gone = 0
	}
	c.crowd(now, seen, standing)
	switch {
	case c.mode == open && c.misses(seen) && c.others.justLeft(now):
		c.concede(now, seen)
	case c.mode == open && c.misses(seen):
		c.try(now, seen, firstAgain)
	case c.mode == contested && c.misses(seen) && now.Sub(c.since) >= c.patience(seen):
		c.try(now, seen, min(2*c.again, lastAgain))
	case (c.mode == trying || c.mode == short) && c.taken >= takenSteps:
		c.concede(now, seen)
	case c.mode == trying && c.gone >= goneSteps:
		c.enter(short, now)
		c.believed = min(max(firstBelieved, 2*c.believed), lastBelieved)
		c.queued = 0            // the rest of the queue is about to go
		c.peak = seen.delivered // the link does not give what it gave before
	case c.mode == trying && c.gone == 0 && now.Sub(c.since) >= max(tryFor, tellingTrips*seen.trip), c.mode == short && c.stays(seen):
		c.concede(now, seen)
	case c.mode == contested && c.calm >= calmSteps, c.mode == short && !missed && c.calm > 0:
		c.believed = 0
		c.enter(open, now)
	case c.mode == short && now.Sub(c.since) >= c.believed:
		c.missed = 0 // the next try is about the queue that stands then
		c.enter(open, now)
	}
	if c.mode == trying {
		return short
	}
	return c.mode
}

// crowd finds out whether others fill the queue. As far as is known, nobody else is there while as much comes as ever did without a
// queue. That does not end a contest, which ends only when no queue stands, or when far more comes.
func (c *contest) crowd(now time.Time, seen summary, standing time.Duration) {
	alone := func(share Rate) bool { return c.peak > 0 && seen.delivered > share*c.peak }
	// A try comes first: windows and connections against a crowd would only fill the queue.
	first := c.mode == open && c.missed > 0 && !c.misses(seen)
	switch {
	case c.everybody && c.others.frees(now, seen.delivered):
		if c.mode == contested {
			c.enter(open, now)
		}
	case c.calm >= calmSteps, alone(.96) && !c.everybody:
		c.others.gone()
	case c.everybody && c.mode == contested:
		c.others.come(now)
	case alone(.96):
		c.others.doubt(now)
	case c.stays(seen) && (seen.queue > 2*standing || seen.disturbed) && !alone(nobodyShare) && !first:
		c.others.come(now)
	}
}

// misses reports whether targets have been missed for long enough, beside a queue, and stays whether that queue has stood for long enough.
func (c *contest) misses(seen summary) bool { return c.missed >= max(missedSteps, seen.telling()) }
func (c *contest) stays(seen summary) bool  { return c.queued >= max(crowdedSteps, seen.telling()) }

// concede takes others to be there.
func (c *contest) concede(now time.Time, seen summary) {
	c.less = seen.delivered
	c.enter(contested, now)
}

// missed reports whether the targets are missed, taken together.
func (s summary) missed() bool { return s.delivered < missedShare*s.targets }

// share returns which share of the targets comes.
func (s summary) share() float64 { return float64(s.delivered / max(s.targets, 1)) }

// try has less planned for, to see whether the queue goes.
func (c *contest) try(now time.Time, seen summary, again time.Duration) {
	c.queue, c.again = seen.queue, again
	c.before, c.share, c.taken, c.gone = seen.delivered, seen.share(), 0, 0
	c.enter(trying, now)
}

// patience returns how long to take others to be there before trying again.
func (c *contest) patience(seen summary) time.Duration {
	if seen.delivered > gained*c.less {
		return lastAgain
	}
	return c.again
}

func (c *contest) enter(next mode, now time.Time) { c.mode, c.since = next, now }
