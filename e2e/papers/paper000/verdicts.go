package paper000

import (
	"fmt"
	"slices"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// margin is by how much one value must differ from another to count as more or less: single runs differ that much by themselves.
const margin = 0.02

// verdicts says for each sentence of 000 §V about the figures whether it holds here, at every point that it is about.
func (m measured) verdicts() measure.Table {
	t := measure.Table{Title: "What the paper's text says, and what is seen here", Columns: []string{"section V, in short", "seen", "same"}}
	for _, sentence := range []func() verdict{
		m.consumesLess, m.consumesOnce, m.consumesPerMember, m.receivesMore, m.farReceivesLess, m.nearTakesMost, m.unicastStarves, m.proportional,
		m.delayMatters, m.unicastFalls, m.staysEffective,
		m.lowLoadSaves, m.hopSendsMost, m.unicastReceptionFalls, m.hopReceptionFalls, m.endToEndReceives, m.endToEndEffective,
		m.cacheOfOne, m.cacheOfMany, m.hopCachesMost, m.endToEndCachesLess,
	} {
		v := sentence()
		t.Rows = append(t.Rows, []string{v.sentence, v.seen, v.same()})
	}
	return t
}

// verdict says at how many of the points that a sentence is about it holds.
type verdict struct {
	sentence, seen string
	hold, of       int
}

func (v verdict) same() string {
	switch {
	case v.of == 0:
		return "not measured"
	case v.hold == v.of:
		return "yes"
	case v.hold == 0:
		return "no"
	}
	return fmt.Sprintf("at %d of %d points", v.hold, v.of)
}

// judge shows the figures of the last point at which a sentence does not hold or, if it holds everywhere, of the last point.
func judge(sentence string, points []point, figures func(point) string, holds func(point) bool) verdict {
	v := verdict{sentence: sentence, of: len(points)}
	if len(points) == 0 {
		v.seen = "it speaks of none of the points"
		return v
	}
	shown, word := points[len(points)-1], ""
	for _, p := range points {
		if holds(p) {
			v.hold++
		} else {
			shown, word = p, "not with "
		}
	}
	v.seen = word + shown.String() + ": " + figures(shown)
	return v
}

// alone returns the points with one sender.
func (m measured) alone() []point { return m.having(func(p point) bool { return p.senders == 1 }) }

// together returns the points with four senders.
func (m measured) together() []point { return m.having(func(p point) bool { return p.senders > 1 }) }

func (m measured) having(property func(point) bool) (list []point) {
	for _, p := range m.points() {
		if property(p) {
			list = append(list, p)
		}
	}
	return list
}

// loaded returns the points with a load.
func loaded(points []point, load float64) []point {
	return slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.load != load })
}

// compared returns the points with a load, if there is another to compare it with.
func (m measured) compared(points []point, load float64) []point {
	if m.low() == m.high() {
		return nil
	}
	return loaded(points, load)
}

// calm returns the same point with the lowest load.
func (m measured) calm(p point) point {
	p.load = m.low()
	return p
}

// lonely returns the same point with the fewest members.
func (m measured) lonely(p point) point {
	p.members = slices.Min(m.members)
	return p
}

func (m measured) of(how method, p point) outcome { return m.at[how][p] }

// lines shows an index for the figures' three methods.
func (m measured) lines(value index, unit string) func(point) string {
	return func(p point) string {
		return fmt.Sprintf("unicast %.2f, hop %.2f, end-to-end %.2f%s", value(m.of(byUnicast, p)), value(m.of(byHop, p)), value(m.of(byEndToEnd, p)), unit)
	}
}

// change shows how an index of one method changes with the load.
func (m measured) change(how method, value index, unit string) func(point) string {
	return func(p point) string {
		return fmt.Sprintf("%.2f, from %.2f at a load of %.1f%s", value(m.of(how, p)), value(m.of(how, m.calm(p))), m.low(), unit)
	}
}

// both reports whether something holds for both proposed methods.
func (m measured) both(p point, is func(outcome) bool) bool {
	return is(m.of(byHop, p)) && is(m.of(byEndToEnd, p))
}

func consumed(o outcome) float64  { return o.consumption }
func receiving(o outcome) float64 { return o.reception }

func (m measured) consumesLess() verdict {
	return judge("V-A: the proposed methods consume less of the sender's link than the traditional one", m.alone(), m.lines(consumed, " Mbit/s"),
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return isLess(o.consumption, m.of(byUnicast, p).consumption) })
		})
}

func (m measured) consumesOnce() verdict {
	return judge("V-A: both consume only what the data needs, whatever the number of members (a tenth more than offered at most)", m.alone(),
		func(p point) string {
			return m.lines(consumed, " Mbit/s")(p) + fmt.Sprintf(", %.1f offered", m.of(byHop, p).sent)
		},
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return o.consumption < 1.1*o.sent })
		})
}

// fullLink is the rate, in Mbit/s, at which a link carries hardly anything more.
const fullLink = 95

func (m measured) consumesPerMember() verdict {
	crowded := slices.DeleteFunc(m.alone(), func(p point) bool { return p == m.lonely(p) })
	return judge("V-A: the traditional method needs bandwidth in proportion to the members, until the link is full", crowded,
		func(p point) string {
			return fmt.Sprintf("%.1f Mbit/s, %.1f with the fewest members; the link has 100", m.of(byUnicast, p).consumption, m.of(byUnicast, m.lonely(p)).consumption)
		},
		func(p point) bool {
			growth := float64(p.members) / float64(m.lonely(p).members)
			return m.of(byUnicast, p).consumption > min(fullLink, 0.8*growth*m.of(byUnicast, m.lonely(p)).consumption)
		})
}

func (m measured) receivesMore() verdict {
	return judge("V-A: the proposed methods' reception throughput is higher than the traditional one's", m.alone(), m.lines(receiving, " Mbit/s"),
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return isLess(m.of(byUnicast, p).reception, o.reception) })
		})
}

func (m measured) farReceivesLess() verdict {
	return judge("V-A: with the traditional method a member with a longer round trip than others gets less", m.alone(), m.nearAndFar,
		func(p point) bool { return isLess(m.of(byUnicast, p).far, m.of(byUnicast, p).near) })
}

func (m measured) nearAndFar(p point) string {
	return fmt.Sprintf("a member at the sender's router %.1f Mbit/s in the mean, one behind the other %.1f", m.of(byUnicast, p).near, m.of(byUnicast, p).far)
}

func (m measured) nearTakesMost() verdict {
	return judge("V-A: with a high load members with short round trips occupy most of the bandwidth (a third of the members, more than half)",
		loaded(m.alone(), m.high()), m.nearAndFar,
		func(p point) bool { // two networks are behind the other router
			return m.of(byUnicast, p).near > 2*m.of(byUnicast, p).far
		})
}

func (m measured) unicastStarves() verdict {
	return judge("V-A: the traditional reception throughput reaches zero as the load grows (2 % of the link)", loaded(m.alone(), m.high()),
		m.change(byUnicast, receiving, " Mbit/s"), func(p point) bool { return m.of(byUnicast, p).reception < 2 })
}

func (m measured) proportional() verdict {
	return judge("V-A: both achieve a high reception throughput in proportion to the load (within 20 %)", m.alone(), m.lines(receiving, " Mbit/s"),
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return near(o.reception, 100*p.load, 0.2) })
		})
}

func (m measured) delayMatters() verdict {
	kept := func(how method, p point) float64 {
		nearer := p
		nearer.trunkDelay = delays[0]
		return m.of(how, p).reception / max(0.1, m.of(how, nearer).reception)
	}
	far := slices.DeleteFunc(m.alone(), func(p point) bool { return p.trunkDelay == delays[0] })
	return judge("V-A: both decrease the impact of the propagation delay", far,
		func(p point) string {
			return fmt.Sprintf("of the throughput at %v, unicast keeps %.2f, hop %.2f, end-to-end %.2f", delays[0], kept(byUnicast, p), kept(byHop, p), kept(byEndToEnd, p))
		},
		func(p point) bool {
			return isLess(kept(byUnicast, p), kept(byHop, p)) && isLess(kept(byUnicast, p), kept(byEndToEnd, p))
		})
}

func (m measured) unicastFalls() verdict {
	return judge("V-A: the traditional effective throughput decreases with the load", m.compared(m.alone(), m.high()), m.change(byUnicast, outcome.effective, ""),
		func(p point) bool {
			return isLess(m.of(byUnicast, p).effective(), m.of(byUnicast, m.calm(p)).effective())
		})
}

func (m measured) staysEffective() verdict {
	return judge("V-A: the proposed methods keep a high effective throughput at any load (more than 0.8)", m.alone(), m.lines(outcome.effective, ""),
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return o.effective() > 0.8 })
		})
}

func (m measured) lowLoadSaves() verdict {
	return judge("V-B: with a low load both consume less than the traditional method", m.compared(m.together(), m.low()), m.lines(consumed, " Mbit/s"),
		func(p point) bool {
			return m.both(p, func(o outcome) bool { return isLess(o.consumption, m.of(byUnicast, p).consumption) })
		})
}

// leads reports whether a method has more of something than both others.
func (m measured) leads(how method, value index, p point) bool {
	for _, other := range methods[:3] {
		if other != how && !isLess(value(m.of(other, p)), value(m.of(how, p))) {
			return false
		}
	}
	return true
}

func (m measured) hopSendsMost() verdict {
	return judge("V-B: with a high load hop consumes more than the others", loaded(m.together(), m.high()), m.lines(consumed, " Mbit/s"),
		func(p point) bool { return m.leads(byHop, consumed, p) })
}

// falls reports whether a member gets less than at the lowest load.
func (m measured) falls(how method) func(point) bool {
	return func(p point) bool { return isLess(m.of(how, p).reception, m.of(how, m.calm(p)).reception) }
}

func (m measured) unicastReceptionFalls() verdict {
	return judge("V-B: the traditional reception throughput falls as the load grows, by competing connections", m.compared(m.together(), m.high()),
		m.change(byUnicast, receiving, " Mbit/s"), m.falls(byUnicast))
}

func (m measured) hopReceptionFalls() verdict {
	return judge("V-B: hop's reception throughput falls as the load grows, by the explosion of ACK packets", m.compared(m.together(), m.high()),
		m.change(byHop, receiving, " Mbit/s"), m.falls(byHop))
}

func (m measured) endToEndReceives() verdict {
	return judge("V-B: end-to-end receives most with a high load", loaded(m.together(), m.high()), m.lines(receiving, " Mbit/s"),
		func(p point) bool { return m.leads(byEndToEnd, receiving, p) })
}

func (m measured) endToEndEffective() verdict {
	return judge("V-B: end-to-end has the highest effective throughput with a high load", loaded(m.together(), m.high()), m.lines(outcome.effective, ""),
		func(p point) bool { return m.leads(byEndToEnd, outcome.effective, p) })
}

func (m measured) caches(p point) string {
	return fmt.Sprintf("hop %.1f %%, end-to-end %.1f %%", 100*m.of(byHop, p).cache, 100*m.of(byEndToEnd, p).cache)
}

func (m measured) cacheOfOne() verdict {
	return judge("V-C: with one sender the cache ratio is below 10 %", m.alone(), m.caches, func(p point) bool {
		return m.both(p, func(o outcome) bool { return o.cache < 0.1 })
	})
}

func (m measured) cacheOfMany() verdict {
	ofOne := func(p point) point { return m.one(p.members, p.trunkDelay, p.load) }
	return judge("V-C: with four senders it is higher", m.together(),
		func(p point) string { return m.caches(p) + "; with one sender " + m.caches(ofOne(p)) },
		func(p point) bool {
			return isLess(m.of(byHop, ofOne(p)).cache, m.of(byHop, p).cache) && isLess(m.of(byEndToEnd, ofOne(p)).cache, m.of(byEndToEnd, p).cache)
		})
}

// This is the only sentence about a single point: the highest one.
func (m measured) hopCachesMost() verdict {
	most := slices.MaxFunc(m.together(), func(a, b point) int {
		return int(1e6 * (m.of(byHop, a).cache - m.of(byHop, b).cache))
	})
	return judge("V-C: with four senders hop reaches about 80 % (at its highest, within a fifth)", []point{most}, m.caches,
		func(p point) bool { return near(m.of(byHop, p).cache, 0.8, 0.2) })
}

func (m measured) endToEndCachesLess() verdict {
	return judge("V-C: with four senders end-to-end suppresses the cache ratio (by a tenth at least)", m.together(), m.caches,
		func(p point) bool { return m.of(byEndToEnd, p).cache < 0.9*m.of(byHop, p).cache })
}

// near reports whether a differs from b by less than a share.
func near(a, b, share float64) bool { return a > b*(1-share) && a < b*(1+share) }

// isLess reports whether a is less than b by more than the margin.
func isLess(a, b float64) bool { return a < b*(1-margin) }
