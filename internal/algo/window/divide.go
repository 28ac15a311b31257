package window

import (
	"cmp"
	"slices"
)

// claim is what a client may claim of the bandwidth that is there.
type claim struct {
	target, minimum Rate
	// limit is the most that it may have or can use.
	limit    Rate
	weight   float64 // by which the rest is divided
	priority int
}

// want is what it needs to have its target.
func (c claim) want() Rate { return min(c.target, c.limit) }

// divide divides bandwidth, by one of three rules. Surplus: everybody gets its target, and the rest
// goes by weight. Priority, if the targets do not fit: everybody gets its minimum, and the rest goes by decreasing
// priority, among equals by what they lack. Ratio, if not even the minimums fit: all goes by the ratio of targets.
func divide(available Rate, claims []claim) (rates []Rate, rule Reason) {
	rates = make([]Rate, len(claims))
	rest, minimums := available, Rate(0)
	for i, c := range claims {
		rates[i] = c.want()
		rest -= rates[i]
		minimums += min(c.minimum, rates[i])
	}
	if rest >= 0 {
		fill(rates, rest, everyone(claims), func(i int) (weight float64, most Rate) { return claims[i].weight, claims[i].limit })
		return rates, Surplus
	}
	if minimums > available {
		clear(rates)
		fill(rates, available, everyone(claims), func(i int) (float64, Rate) { return float64(claims[i].target), claims[i].want() })
		return rates, Ratio
	}
	for i, c := range claims {
		rates[i] = min(c.minimum, c.want())
	}
	rest = available - minimums
	for _, equals := range byDecreasingPriority(claims) {
		rest = fill(rates, rest, equals, func(i int) (float64, Rate) {
			return float64(claims[i].want() - min(claims[i].minimum, claims[i].want())), claims[i].want()
		})
	}
	return rates, Priority
}

func everyone(claims []claim) []int {
	all := make([]int, len(claims))
	for i := range all {
		all[i] = i
	}
	return all
}

// byDecreasingPriority groups claims of the same priority.
func byDecreasingPriority(claims []claim) [][]int {
	order := everyone(claims)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(claims[b].priority, claims[a].priority) })
	var groups [][]int
	for i, one := range order {
		if i == 0 || claims[one].priority != claims[order[i-1]].priority {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], one)
	}
	return groups
}

// fill adds an amount to some rates by their weights, none above its most, and returns what is
// left. It is like water that rises in vessels at the same time: it goes through them in the order in
// which they are full.
func fill(rates []Rate, amount Rate, among []int, vessel func(i int) (weight float64, most Rate)) (left Rate) {
	type level struct {
		i      int
		weight float64
		room   Rate
	}
	levels, weights := make([]level, 0, len(among)), 0.0
	for _, i := range among {
		weight, most := vessel(i)
		if weight > 0 && most > rates[i] {
			levels = append(levels, level{i, weight, most - rates[i]})
			weights += weight
		}
	}
	full := func(l level) float64 { return float64(l.room) / l.weight }
	slices.SortStableFunc(levels, func(a, b level) int { return cmp.Compare(full(a), full(b)) })
	for _, l := range levels {
		part := min(l.room, amount)
		if l.weight < weights { // if not, it is the last one, but for rounding
			part = min(l.room, amount*Rate(l.weight/weights))
		}
		rates[l.i] += part
		amount, weights = max(0, amount-part), weights-l.weight
	}
	return amount
}
