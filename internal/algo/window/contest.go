package window

import "time"

// mode says what the targets are up against.
type mode int

const (
	open      mode = iota // they are met, or could be
	trying                // less is planned, to see whether the queue goes
	short                 // the link has less than the targets
	contested             // others, whom nobody controls here, fill the queue
)

// contest finds out why targets are not met while a queue stands. Either the link has less than
// the targets together: then planning for what it has takes the queue away, and priority
// decides who gets it. Or others fill the queue: then planning for less only leaves them more.
// From outside both look the same, so it is tried. Whenever less comes then though a queue stands, others have it:
// trying and short are contested at once. So is open where they were taken to have gone a moment ago.
//
//	open ──targets missed, a queue stands──▶ trying ──the queue goes──▶ short
//	  ▲                                      ▲ │                        │ │
//	  │                       they stay so, ─┘ │    ┌───it comes back───┘ │ the targets fit
//	  │                     later every time   │    │   and is long       │
//	  │                               it stays ▼    ▼                     │ or after a time,
//	  ├──no queue for a while───────────── contested                      │ longer every time
//	  └───────────────────────────────────────────────────────────────────┘
type contest struct {
	// everybody is whether all clients are seen, as on the access link. On the way of one, those beside it are others
	// who come and go all the time: what is learnt of others is not kept there.
	everybody bool

	mode   mode
	since  time.Time // when the mode began
	missed int       // steps in a row in which targets were missed while a queue stood
	calm   int       // steps in a row without a queue
	queued int       // steps in a row with one
	// others fill a queue that is not of our making: ours goes in a few steps, is short, and loses nothing.
	others crowd
	// peak is what was delivered at most without a queue: who gets that has nobody beside him.
	peak  Rate
	queue time.Duration
	again time.Duration // after which it is tried again
	less  Rate          // what came when others were taken to be there
	// before and share are what came when less began to be planned, and what share of the targets that was.
	before Rate
	share  float64
	taken  int // steps in a row in which less comes though a queue stands
	gone   int // steps in a row without the queue for which it is tried
	// believed is for how long a link is taken to be short. Little that comes beside others looks like all that comes
	// over a narrow link: only more that is planned tells.
	believed time.Duration
}

const (
	// missedShare is the share of the targets below which they are missed, missedSteps for
	// how many steps.
	missedShare, missedSteps = .93, 3
	// tryFor is how long a try takes: until what was granted is used up, and was measured.
	tryFor = 2 * time.Second
	// calmSteps is how long no queue must have stood until others are taken to have gone.
	calmSteps = 4
	// nobodyShare is a share of what came without a queue: who gets more of it has nobody beside him.
	nobodyShare = .93
	// crowdedSteps is for how long a queue stands that is not of our making.
	crowdedSteps = 3
	// peakKept is what is left per step of what was delivered at most.
	peakKept = .999
	// lastAgain is after how long it is tried again, while targets are missed, whether others have
	// gone; firstAgain the first time, twice as long every time, where taking it for a contest has
	// gained nothing: then perhaps nobody else was there.
	firstAgain, lastAgain = 4 * time.Second, time.Minute
	// gained is how many times what came before must come for something to be gained.
	gained = 1.2
	// lost is less than which of what came before others have taken something, for takenSteps: a link gives all that it
	// has while a queue stands.
	lost, takenSteps = .85, 2
	// goneSteps is after how many steps without it a queue has gone: those of others come and go.
	goneSteps = 2
	// firstBelieved is for how long a link is taken to be short the first time, twice as long every time: what is
	// planned for to see whether it still is fills its queue for a second or two.
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
	// Short transfers make queues that go by themselves, and a plan for all that the link has a short one. While as
	// much comes as without a queue, nobody has come to a link that is short.
	ours := seen.initial > seen.later || c.mode == short && (seen.queue <= 2*standing || seen.delivered > nobodyShare*c.peak)
	if !queued || ours {
		c.queued = 0
	}
	if !queued {
		c.peak = max(peakKept*c.peak, seen.delivered)
	} else if c.mode != short { // else others who come little by little would never be noticed
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
	case c.mode == open && c.missed >= missedSteps && c.others.justLeft(now):
		c.concede(now, seen)
	case c.mode == open && c.missed >= missedSteps:
		c.try(now, seen, firstAgain)
	case c.mode == contested && c.missed >= missedSteps && now.Sub(c.since) >= c.patience(seen):
		c.try(now, seen, min(2*c.again, lastAgain))
	case (c.mode == trying || c.mode == short) && c.taken >= takenSteps:
		c.concede(now, seen)
	case c.mode == trying && c.gone >= goneSteps:
		c.enter(short, now)
		c.believed = min(max(firstBelieved, 2*c.believed), lastBelieved)
		c.queued = 0            // what is left of the queue goes now
		c.peak = seen.delivered // what the link gave before it gives no more
	case c.mode == trying && c.gone == 0 && now.Sub(c.since) >= tryFor, c.mode == short && c.queued >= crowdedSteps:
		c.concede(now, seen)
	case c.mode == contested && c.calm >= calmSteps, c.mode == short && !missed && c.calm > 0:
		c.believed = 0
		c.enter(open, now)
	case c.mode == short && now.Sub(c.since) >= c.believed:
		c.missed = 0 // it is tried with the queue that stands then
		c.enter(open, now)
	}
	if c.mode == trying {
		return short
	}
	return c.mode
}

// crowd finds out whether others fill the queue. Who gets as much as ever without a queue is alone, as far as is known. A
// contest does not end with that: only when no queue stands, or far more comes.
func (c *contest) crowd(now time.Time, seen summary, standing time.Duration) {
	alone := func(share Rate) bool { return c.peak > 0 && seen.delivered > share*c.peak }
	// It is tried first: windows and connections for a crowd would only fill the queue.
	first := c.mode == open && c.missed > 0 && c.missed < missedSteps
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
	case c.queued >= crowdedSteps && (seen.queue > 2*standing || seen.disturbed) && !alone(nobodyShare) && !first:
		c.others.come(now)
	}
}

// concede takes it that others are there.
func (c *contest) concede(now time.Time, seen summary) {
	c.less = seen.delivered
	c.enter(contested, now)
}

// missed is whether the targets are, together.
func (s summary) missed() bool { return s.delivered < missedShare*s.targets }

// share is what share of the targets comes.
func (s summary) share() float64 { return float64(s.delivered / max(s.targets, 1)) }

// try has less planned for, to see whether the queue goes.
func (c *contest) try(now time.Time, seen summary, again time.Duration) {
	c.queue, c.again = seen.queue, again
	c.before, c.share, c.taken, c.gone = seen.delivered, seen.share(), 0, 0
	c.enter(trying, now)
}

// patience is how long others are taken to be there.
func (c *contest) patience(seen summary) time.Duration {
	if seen.delivered > gained*c.less {
		return lastAgain
	}
	return c.again
}

func (c *contest) enter(next mode, now time.Time) { c.mode, c.since = next, now }
