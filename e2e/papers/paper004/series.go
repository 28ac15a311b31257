package paper004

import (
	"time"

	"github.com/groupcast/groupcast/e2e/lab/measure"
)

// packetMbit is the size of a full SOMA packet in Mbit.
const packetMbit = 523 * 8 / 1e6

// windowSeries is the window over the time since the first window.
func (o outcome) windowSeries(name string) measure.Series {
	s := measure.Series{Name: name}
	for _, w := range o.windows {
		s.Points = append(s.Points, measure.Point{X: o.since(w.At), Y: float64(w.Window)})
	}
	return s
}

func (o outcome) since(at time.Time) float64 { return at.Sub(o.windows[0].At).Seconds() }

// throughputSeries is "the instantaneous throughput": what each piece of time carried, from the
// beginning of one window to that of another.
func (o outcome) throughputSeries(name string, piece time.Duration) measure.Series {
	s := measure.Series{Name: name}
	from := 0
	for i := 1; i < len(o.windows); i++ {
		took := o.windows[i].At.Sub(o.windows[from].At)
		if took < piece {
			continue
		}
		packets := o.windows[i].First - o.windows[from].First
		s.Points = append(s.Points, measure.Point{X: o.since(o.windows[i].At), Y: float64(packets) * packetMbit / took.Seconds()})
		from = i
	}
	return s
}

// throughput returns the mean between two windows, in Mbit/s of SOMA's packets.
func (o outcome) throughput(from, to int) float64 {
	packets := o.windows[to].First - o.windows[from].First
	return float64(packets) * packetMbit / o.windows[to].At.Sub(o.windows[from].At).Seconds()
}

// steadyWindow returns W_T as it was: "the window size just before congestion is detected" (§IV-B),
// the most frequent one in the second half of the transfer. Congestion was detected where the next
// window is smaller; the window before it is one less than the one for which the timer expired.
func (o outcome) steadyWindow() int {
	counts, most := map[int]int{}, 0
	for i := len(o.windows) / 2; i+1 < len(o.windows); i++ {
		if w := o.windows[i].Window; o.windows[i+1].Window < w {
			counts[w-1]++
			if counts[w-1] > counts[most] {
				most = w - 1
			}
		}
	}
	return most
}

// thin shortens a series so that it can be drawn and kept.
func thin(s measure.Series, most int) measure.Series {
	if len(s.Points) <= most {
		return s
	}
	kept := measure.Series{Name: s.Name}
	for i := range most {
		kept.Points = append(kept.Points, s.Points[i*len(s.Points)/most])
	}
	return kept
}
