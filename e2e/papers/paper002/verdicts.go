package paper002

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// verdicts says for each sentence of 002 §3.2 about the measurements whether it holds here.
func (o outcome) verdicts() measure.Table {
	t := measure.Table{Title: "What the paper's text says, and what is seen here", Columns: []string{"section 3.2, in short", "seen", "same"}}
	for _, v := range []func() (sentence, seen string, same bool){
		o.startsAlike, o.rises, o.falls, o.linear, o.bestLevel, o.sevenTimes, o.figureRises, o.figureFalls, o.tunesItself,
	} {
		sentence, seen, same := v()
		t.Rows = append(t.Rows, []string{sentence, seen, map[bool]string{true: "yes", false: "no"}[same]})
	}
	return t
}

func (o outcome) tunesItself() (sentence, seen string, same bool) {
	var rates []float64
	for _, one := range o.links[0].tuned {
		rates = append(rates, float64(one.rate))
	}
	least, middle := slices.Min(rates), measure.Median(rates)
	best, untuned := float64(o.grid[o.best()]), float64(o.grid[cell{smallest, 1}])
	return "(ours) a link that tunes itself has at least 95 % of the best cell, and 7 times the untuned connection",
		fmt.Sprintf("the median of %d: %.0f %%, %.1f times; the slowest: %.0f %%, %.1f times", len(rates), 100*middle/best, middle/untuned, 100*least/best, least/untuned),
		middle >= 0.95*best && least >= headline*untuned
}

func (g grid) startsAlike() (sentence, seen string, same bool) {
	got := mbit(g[cell{smallest, 1}])
	return "one connection with 8192 bytes carries 2.2 Mbit/s: the path was chosen so", fmt.Sprintf("%.1f", got), got > 0.9*paperUntuned && got < 1.1*paperUntuned
}

func (g grid) rises() (sentence, seen string, same bool) {
	small, large := mbit(g[cell{smallest, 1}]), mbit(g[cell{65536, 1}])
	return "throughput increases with the buffer within a certain range", fmt.Sprintf("%.1f to %.1f Mbit/s from 8192 to 65536 bytes", small, large), large > 2*small
}

func (g grid) falls() (sentence, seen string, same bool) {
	top, large := mbit(g[cell{65536, 1}]), mbit(g[cell{1048576, 1}])
	return "beyond a certain size it decreases", fmt.Sprintf("%.1f Mbit/s with 65536 bytes, %.1f with 1048576", top, large), large < 0.9*top
}

func (g grid) linear() (sentence, seen string, same bool) {
	one, nine := mbit(g[cell{smallest, 1}]), mbit(g[cell{smallest, tableMost}])
	return "more sockets often yield a linear speedup (the paper's own nine: 5.4 times)", fmt.Sprintf("nine with 8192 bytes carry %.1f times what one does", nine/one), nine > 5*one
}

func (g grid) bestLevel() (sentence, seen string, same bool) {
	wins := 0
	for n := 1; n <= tableMost; n++ {
		top := slices.MaxFunc(levels, func(a, b link.Bytes) int { return cmp.Compare(g[cell{a, n}], g[cell{b, n}]) })
		if top == best {
			wins++
		}
	}
	return "for each number of connections the throughput is highest at 32768 bytes", fmt.Sprintf("for %d of 9 numbers", wins), wins == tableMost
}

func (g grid) sevenTimes() (sentence, seen string, same bool) {
	untuned, tuned := mbit(g[cell{smallest, 1}]), mbit(g[cell{tunedBuffer, tunedSockets}])
	return "three connections with 32768 bytes are about 7 times as fast as one with 8192: 15.5 Mbit/s",
		fmt.Sprintf("%.1f Mbit/s, %.1f times", tuned, tuned/untuned), tuned > 0.9*headline*untuned && tuned > 0.9*paperTuned
}

func (g grid) figureRises() (sentence, seen string, same bool) {
	one, ten := seconds(g[cell{best, 1}]), seconds(g[cell{best, 10}])
	return "with 32768 bytes, 1 through 10 connections improve the throughput", fmt.Sprintf("%.1f s with 1, %.1f s with 10", one, ten), ten < 0.9*one
}

func (g grid) figureFalls() (sentence, seen string, same bool) {
	fastest, number := seconds(g[cell{best, 1}]), 1
	for n := 2; n <= figureMost; n++ {
		if took := seconds(g[cell{best, n}]); took < fastest {
			fastest, number = took, n
		}
	}
	most := seconds(g[cell{best, figureMost}])
	return "the best times are between 8 and 13 connections, after which they increase",
		fmt.Sprintf("the best, %.1f s, with %d; %.1f s with %d", fastest, number, most, figureMost),
		number >= paperBestFewer && number <= paperBestMost && most > 1.02*fastest
}
