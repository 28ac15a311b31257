package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/groupcast/groupcast/internal/algo/soma/model"
)

const (
	ms = time.Millisecond
	us = time.Microsecond
)

// paperPath is the paper's own network: 100 Mbit/s, and 1.55 at the transport layer (§VI).
func paperPath(n2 int) model.Path {
	return model.Path{Packets: model.Paper, C1: 100 * model.Mbit, C2: 1.55 * model.Mbit, N1: 1, N2: n2}
}

func about(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within*math.Abs(want) {
		t.Errorf("%s is %v, want %v within %v", what, got, want, within)
	}
}

// Table I: W_T "supposing a wireless LAN capacity C_2 of 1.55 Mbps and ARTP = 120 µs". It follows
// from packets of 523 bytes, header and payload.
func TestTableI(t *testing.T) {
	table := map[int][]int{
		1: {29, 33, 37, 40, 44},
		2: {28, 32, 36, 39, 43},
		3: {27, 31, 35, 38, 42},
		4: {26, 30, 34, 37, 41},
	}
	for n2, row := range table {
		for i, want := range row {
			timeout := time.Duration(80+10*i) * ms
			if got := paperPath(n2).SteadyWindow(timeout, 120*us); got != want {
				t.Errorf("N_C2 = %d, dflt_Tout = %v: W_T is %d, the paper has %d", n2, timeout, got, want)
			}
		}
	}
}

// "for each C_2 network added to the critical path, the W_T value is decremented in one unit" (§IV-B)
func TestEachSlowLANCostsOnePacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeout := time.Duration(rapid.IntRange(50, 500).Draw(t, "timeout")) * ms
		n2 := rapid.IntRange(1, 9).Draw(t, "N_C2")
		if here, next := paperPath(n2).SteadyWindow(timeout, 0), paperPath(n2+1).SteadyWindow(timeout, 0); next != here-1 {
			t.Fatalf("W_T is %d with %d slow LANs, and %d with one more", here, n2, next)
		}
	})
}

// "W_T can be obtained when equation (15) slightly matches with dflt_Tout" (§IV-B)
func TestSteadyWindowIsTheLastConfirmedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := paperPath(rapid.IntRange(1, 4).Draw(t, "N_C2"))
		timeout := time.Duration(rapid.IntRange(20_000, 200_000).Draw(t, "timeout, µs")) * us
		w := p.SteadyWindow(timeout, 120*us)
		if p.ConfirmationInShort(w, 120*us) > timeout+1 || p.ConfirmationInShort(w+1, 120*us) < timeout-1 {
			t.Fatalf("with %v the window of %d is confirmed after %v, and one more after %v", timeout, w,
				p.ConfirmationInShort(w, 120*us), p.ConfirmationInShort(w+1, 120*us))
		}
	})
}

// Equation (15): what is neglected is little where C_1 ≫ C_2.
func TestWhatIsNeglectedIsLittle(t *testing.T) {
	whole, short := paperPath(1).Confirmation(29, 120*us), paperPath(1).ConfirmationInShort(29, 120*us)
	if whole <= short || whole-short > short/100 {
		t.Errorf("%v, in short %v", whole, short)
	}
}

// "The ARTP is 120 µs, which is calculated using (9) when n=4 and the ARTP_max is 600 µs" (§VI)
func TestMeanARTPOfThePaper(t *testing.T) {
	if got := (model.Feedback{Clients: 4, Max: 600 * us}).Mean(); got != 120*us {
		t.Error(got)
	}
}

// Equations (8) and (9) are the same, "due to the signal alternance of the sumatory terms".
func TestMeanIsItsSum(t *testing.T) {
	for n := 1; n <= 40; n++ {
		f := model.Feedback{Clients: n, Max: 600 * us}
		about(t, fmt.Sprintf("equation (8) with %d clients", n), float64(f.MeanSum()), float64(f.Mean()), 0.01)
	}
}

// "each random value ARTP_i is uniformly distributed" (§III-D): the oracle draws them.
func TestLeastOfUniformTimes(t *testing.T) {
	const seed, rounds = 1, 200_000
	random := rand.New(rand.NewPCG(seed, seed))
	for _, n := range []int{1, 2, 4, 16} {
		f := model.Feedback{Clients: n, Max: 600 * us}
		sum, early := 0.0, 0
		for range rounds {
			least := 1.0
			for range n {
				least = min(least, random.Float64())
			}
			sum += least
			if least < 0.1 {
				early++
			}
		}
		about(t, fmt.Sprintf("(9) with %d", n), float64(f.Mean())/float64(f.Max), sum/rounds, 0.02)
		about(t, fmt.Sprintf("(6) with %d", n), f.Distribution(60*us), float64(early)/rounds, 0.03)
	}
}

// Equation (7) is the derivative of (6).
func TestDensityIsTheDerivative(t *testing.T) {
	f := model.Feedback{Clients: 5, Max: 600 * us}
	for at := 10 * us; at < f.Max; at += 50 * us {
		difference := (f.Distribution(at+us) - f.Distribution(at-us)) / (2 * us).Seconds()
		about(t, fmt.Sprintf("density at %v", at), f.Density(at), difference, 0.01)
	}
}

// Equations (10), (11), (15), (18) and (19) with the paper's sizes, reckoned by hand: 10 MB are 19531.25 packets of 4184 bits, each of
// which takes 41.84 µs at 100 Mbit/s and 2699.35 µs at 1.55; an ACK of 88 bits takes 0.88 and 56.77 µs.
func TestByHand(t *testing.T) {
	const exact = 1e-5
	file, p := model.Bytes(10_000_000), paperPath(1)
	about(t, "equation (10)", p.TransferTime(file, p.C1, 100, 120*us).Seconds(), 0.8171875+195.3125*120.88e-6, exact)
	about(t, "equation (11)", p.Reduction(file, p.C1, 1, 100, 120*us).Seconds(), 19531.25*120.88e-6*0.99, exact)
	about(t, "equation (15)", p.Confirmation(29, 120*us).Seconds(), 29*2699.355e-6+41.84e-6+120e-6+0.88e-6+56.774e-6, exact)
	far := model.Path{Packets: p.Packets, C1: p.C1, C2: p.C2, N1: 2, N2: 3}
	about(t, "equation (15) over five LANs", far.Confirmation(29, 120*us).Seconds(), 31*2699.355e-6+2*41.84e-6+120e-6+2*0.88e-6+3*56.774e-6, exact)
	about(t, "equation (15) in short", far.ConfirmationInShort(29, 120*us).Seconds(), 31*2699.355e-6+120e-6, exact)
	about(t, "equation (18)", float64(p.CongestedThroughput(29, p.C1, 80*ms)), 30*4184/(80e-3+30*41.84e-6), exact)
	about(t, "equation (19)", float64(p.CongestedLimit(80*ms)), 128_184/(80e-3+1281.84e-6), exact)
}

// Equations (10) and (11): the reduction is the difference of two transfer times.
func TestReductionIsTheDifference(t *testing.T) {
	file, c, artp := model.Bytes(10_000_000), 100*model.Mbit, 120*us
	saved := model.Paper.TransferTime(file, c, 1, artp) - model.Paper.TransferTime(file, c, 100, artp)
	about(t, "equation (11)", float64(model.Paper.Reduction(file, c, 1, 100, artp)), float64(saved), 1e-6)
}

// Equations (12) to (14). The paper prints 0.099 for windows of 1000 packets instead of 100
// where (11) gives 0.009; 0.099 is for 1000 instead of 10.
func TestReductionFactors(t *testing.T) {
	for _, c := range []struct {
		w1, w2 int
		want   float64
	}{{1, 100, 0.99}, {100, 1000, 0.009}, {10, 1000, 0.099}} {
		about(t, fmt.Sprintf("factor from %d to %d", c.w1, c.w2), model.ReductionFactor(c.w1, c.w2), c.want, 1e-9)
	}
	about(t, "equation (12)", model.ReductionFactor(7, 1<<40), model.ReductionLimit(7), 1e-9)
}

// "97.4 Mbps, from equation 17" (§VI): this is with packets as they are on Ethernet, headers of
// UDP (8), IP (20) and Ethernet (14) among them. Of the 523 bytes alone it is 97.2.
func TestMaximumThroughput(t *testing.T) {
	wire := model.Packets{Payload: model.Bytes(512), Data: model.Bytes(523 + 42)}
	about(t, "equation (17) on Ethernet", float64(wire.MaximumThroughput(100, 100*model.Mbit, 120*us)/model.Mbit), 97.4, 0.0005)
	about(t, "equation (17)", float64(model.Paper.MaximumThroughput(100, 100*model.Mbit, 120*us)/model.Mbit), 97.21, 0.0005)
}

// "Irrespective of the dflt_Tout value, the server throughput slightly oscillates around 1.55 Mbps.
// […] This test result can be corroborated analytically by introducing the value of W_T (16) in (18)" (§VI)
func TestCongestedThroughputIsThatOfTheSlowLAN(t *testing.T) {
	for timeout := 80 * ms; timeout <= 120*ms; timeout += 10 * ms {
		p := paperPath(1)
		w := p.SteadyWindow(timeout, 120*us)
		about(t, fmt.Sprintf("equation (18) with %v", timeout), float64(p.CongestedThroughput(w, p.C1, timeout)), float64(p.C2), 0.02)
		about(t, fmt.Sprintf("equation (19) with %v", timeout), float64(p.CongestedLimit(timeout)), float64(p.C2), 0.04)
	}
}
