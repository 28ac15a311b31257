package paper000

import (
	"fmt"
	"slices"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// verdicts tells for each sentence of 000 §V about the figures whether it is seen here.
func (m measured) verdicts() measure.Table {
	t := measure.Table{Title: "What the paper's text says, and what is seen here", Columns: []string{"section V, in short", "seen", "same"}}
	for _, v := range []func() (sentence, seen string, same bool){
		m.consumesOnce, m.consumesPerMember, m.receivesMore, m.unicastStarves, m.proportional, m.delayMatters, m.unicastFalls, m.staysEffective,
		m.lowLoadSaves, m.hopSendsMost, m.hopReceptionFalls, m.endToEndReceives, m.endToEndEffective,
		m.cacheOfOne, m.cacheOfMany, m.hopCachesMost, m.endToEndCachesLess,
	} {
		sentence, seen, same := v()
		t.Rows = append(t.Rows, []string{sentence, seen, map[bool]string{true: "yes", false: "no"}[same]})
	}
	return t
}

func (m measured) low() float64  { return slices.Min(m.loads) }
func (m measured) high() float64 { return slices.Max(m.loads) }

// alone is a method's outcome with one sender and one member in each network.
func (m measured) alone(how method, delay time.Duration, load float64) outcome {
	return m.at[how][m.one(1, delay, load)]
}

// together is a method's outcome with four senders.
func (m measured) together(how method, load float64) outcome { return m.at[how][m.many(load)] }

// uplinks are the consumptions with the fewest and the most members.
func (m measured) uplinks(how method, load float64) (fewest, most float64) {
	at := func(members int) float64 { return m.at[how][m.one(members, delays[0], load)].consumption }
	return at(slices.Min(m.members)), at(slices.Max(m.members))
}

func (m measured) consumesOnce() (sentence, seen string, same bool) {
	hop1, hop5 := m.uplinks(byHop, m.low())
	end1, end5 := m.uplinks(byEndToEnd, m.low())
	return "V-A: both proposed methods consume only what the data needs, whatever the number of members",
		fmt.Sprintf("load %.1f, %d and %d members: hop %.1f and %.1f Mbit/s, end-to-end %.1f and %.1f", m.low(), m.members[0], slices.Max(m.members), hop1, hop5, end1, end5),
		near(hop1, hop5, 0.15) && near(end1, end5, 0.15)
}

func (m measured) consumesPerMember() (sentence, seen string, same bool) {
	few, most := m.uplinks(byUnicast, m.low())
	return "V-A: the traditional method needs bandwidth in proportion to the members",
		fmt.Sprintf("load %.1f: %.1f and %.1f Mbit/s; the link has 100", m.low(), few, most), most > 1.3*few
}

func (m measured) receivesMore() (sentence, seen string, same bool) {
	same = true
	for _, delay := range delays {
		for _, load := range m.loads {
			u := m.alone(byUnicast, delay, load).reception
			same = same && m.alone(byHop, delay, load).reception > u && m.alone(byEndToEnd, delay, load).reception > u
		}
	}
	return "V-A: the proposed methods' reception throughput is higher than the traditional one's", m.threeAtHigh(delays[0]) + "; " + m.threeAtHigh(delays[1]), same
}

func (m measured) threeAtHigh(delay time.Duration) string {
	return fmt.Sprintf("load %.1f, %v: unicast %.1f, hop %.1f, end-to-end %.1f Mbit/s", m.high(), delay, m.alone(byUnicast, delay, m.high()).reception,
		m.alone(byHop, delay, m.high()).reception, m.alone(byEndToEnd, delay, m.high()).reception)
}

func (m measured) unicastStarves() (sentence, seen string, same bool) {
	low, high := m.alone(byUnicast, delays[0], m.low()).reception, m.alone(byUnicast, delays[0], m.high()).reception
	return "V-A: the traditional reception throughput reaches zero as the load grows",
		fmt.Sprintf("%v: %.1f to %.1f Mbit/s from the lowest to the highest load", delays[0], low, high), high < 2
}

func (m measured) proportional() (sentence, seen string, same bool) {
	same = true
	for _, how := range []method{byHop, byEndToEnd} {
		for _, load := range m.loads {
			same = same && near(m.alone(how, delays[0], load).reception, 100*load, 0.2)
		}
	}
	hop, end := m.alone(byHop, delays[0], m.high()).reception, m.alone(byEndToEnd, delays[0], m.high()).reception
	return "V-A: both achieve a high reception throughput in proportion to the load (within 20 %)",
		fmt.Sprintf("%v: hop %.1f to %.1f, end-to-end %.1f to %.1f Mbit/s", delays[0], m.alone(byHop, delays[0], m.low()).reception, hop,
			m.alone(byEndToEnd, delays[0], m.low()).reception, end), same
}

func (m measured) delayMatters() (sentence, seen string, same bool) {
	kept := func(how method) float64 {
		return m.alone(how, delays[1], m.high()).reception / max(0.1, m.alone(how, delays[0], m.high()).reception)
	}
	return "V-A: both decrease the impact of the propagation delay",
		fmt.Sprintf("100 ms keeps of the throughput at 10 ms: unicast %.2f, hop %.2f, end-to-end %.2f", kept(byUnicast), kept(byHop), kept(byEndToEnd)),
		kept(byHop) > kept(byUnicast) && kept(byEndToEnd) > kept(byUnicast)
}

func (m measured) ends(how method, delay time.Duration) (low, high float64) {
	return m.alone(how, delay, m.low()).effective(), m.alone(how, delay, m.high()).effective()
}

func (m measured) unicastFalls() (sentence, seen string, same bool) {
	low, high := m.ends(byUnicast, delays[0])
	return "V-A: the traditional effective throughput decreases with the load", fmt.Sprintf("%v: %.2f to %.2f", delays[0], low, high), high < 0.7*low
}

func (m measured) staysEffective() (sentence, seen string, same bool) {
	hopLow, hopHigh := m.ends(byHop, delays[0])
	endLow, endHigh := m.ends(byEndToEnd, delays[0])
	return "V-A: the proposed methods keep a high effective throughput at any load",
		fmt.Sprintf("%v: hop %.2f to %.2f, end-to-end %.2f to %.2f", delays[0], hopLow, hopHigh, endLow, endHigh), min(hopHigh, endHigh) > 0.8
}

func (m measured) three(value index, load float64) string {
	return fmt.Sprintf("load %.1f: unicast %.2f, hop %.2f, end-to-end %.2f", load, value(m.together(byUnicast, load)), value(m.together(byHop, load)), value(m.together(byEndToEnd, load)))
}

func consumed(o outcome) float64  { return o.consumption }
func receiving(o outcome) float64 { return o.reception }

func (m measured) lowLoadSaves() (sentence, seen string, same bool) {
	u := m.together(byUnicast, m.low()).consumption
	return "V-B: with a low load both consume less than the traditional method", m.three(consumed, m.low()) + " Mbit/s",
		m.together(byHop, m.low()).consumption < u && m.together(byEndToEnd, m.low()).consumption < u
}

func (m measured) hopSendsMost() (sentence, seen string, same bool) {
	hop := m.together(byHop, m.high()).consumption
	return "V-B: with a high load hop consumes more than the others", m.three(consumed, m.high()) + " Mbit/s",
		hop > m.together(byUnicast, m.high()).consumption && hop > m.together(byEndToEnd, m.high()).consumption
}

func (m measured) hopReceptionFalls() (sentence, seen string, same bool) {
	low, high := m.together(byHop, m.low()).reception, m.together(byHop, m.high()).reception
	return "V-B: hop's reception throughput falls as the load grows, by the explosion of ACK packets",
		fmt.Sprintf("%.1f to %.1f Mbit/s for each member from the lowest to the highest load", low, high), high < low
}

func (m measured) endToEndReceives() (sentence, seen string, same bool) {
	return "V-B: end-to-end receives most with a high load", m.three(receiving, m.high()) + " Mbit/s",
		m.together(byEndToEnd, m.high()).reception >= max(m.together(byHop, m.high()).reception, m.together(byUnicast, m.high()).reception)
}

func (m measured) endToEndEffective() (sentence, seen string, same bool) {
	end := m.together(byEndToEnd, m.high()).effective()
	return "V-B: end-to-end has the highest effective throughput with a high load", m.three(outcome.effective, m.high()),
		end >= max(m.together(byHop, m.high()).effective(), m.together(byUnicast, m.high()).effective())
}

// largest is the largest cache ratio over all loads.
func (m measured) largest(how method, at func(load float64) point) (most float64) {
	for _, load := range m.loads {
		most = max(most, m.at[how][at(load)].cache)
	}
	return most
}

func (m measured) ofOne(load float64) point { return m.one(1, delays[0], load) }

func (m measured) cacheOfOne() (sentence, seen string, same bool) {
	hop, end := m.largest(byHop, m.ofOne), m.largest(byEndToEnd, m.ofOne)
	return "V-C: with one sender the cache ratio is below 10 %", fmt.Sprintf("at most: hop %.1f %%, end-to-end %.1f %%", 100*hop, 100*end), max(hop, end) < 0.1
}

func (m measured) cacheOfMany() (sentence, seen string, same bool) {
	hop, end := m.largest(byHop, m.many), m.largest(byEndToEnd, m.many)
	return "V-C: with four senders it is higher", fmt.Sprintf("at most: hop %.1f %%, end-to-end %.1f %%", 100*hop, 100*end),
		hop > m.largest(byHop, m.ofOne) && end > m.largest(byEndToEnd, m.ofOne)
}

func (m measured) hopCachesMost() (sentence, seen string, same bool) {
	hop := m.largest(byHop, m.many)
	return "V-C: with four senders hop reaches about 80 %", fmt.Sprintf("at most %.1f %%", 100*hop), near(hop, 0.8, 0.2)
}

func (m measured) endToEndCachesLess() (sentence, seen string, same bool) {
	hop, end := m.largest(byHop, m.many), m.largest(byEndToEnd, m.many)
	return "V-C: end-to-end suppresses the cache ratio", fmt.Sprintf("four senders, at most: hop %.1f %%, end-to-end %.1f %%", 100*hop, 100*end), end < hop
}

// near tells that a is b but for a share.
func near(a, b, share float64) bool { return a > b*(1-share) && a < b*(1+share) }
