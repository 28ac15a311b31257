package fast_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/algo/soma/fast"
	wire "github.com/groupcast/groupcast/internal/wire/soma/fast"
)

// A block of which all has come, and that its disk has not taken yet, is not there, and not asked for: nothing of it is missing.
func TestBlockThatLandsIsNotAskedFor(t *testing.T) {
	shape, err := fast.ShapeOf(1<<20, 1400)
	if err != nil {
		t.Fatal(err)
	}
	r, now := fast.NewReceiver(shape, 0, 10), time.Unix(0, 0)
	for index := range wire.PacketsPerBlock {
		r.Took(0, index)
	}
	r.Took(1, 0)
	r.Polled(wire.Polled{Poll: 1, Passed: 2, Members: 1, Every: 1}, 1, now)
	report, due := r.Report(now.Add(time.Second))
	if !due || report.Frontier != 0 || len(report.Wants) != 1 || report.Wants[0].Block != 1 {
		t.Errorf("it says %+v", report)
	}
}
