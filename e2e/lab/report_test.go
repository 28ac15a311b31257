package lab_test

import (
	"testing"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/lab/measure"
)

func TestReportTellsLinksAndPrograms(t *testing.T) {
	const n, size = 50, 1000
	l := labtest.New(t, 1)
	a, b := l.Host("a"), l.Host("b")
	wire := l.Link(a, b, link.Shape{Rate: 10 * link.Mbit})
	l.Link(a, b, link.Shape{})
	labtest.Start(t, l)
	if err := a.Command("true").Run(); err != nil {
		t.Fatal(err)
	}

	recorder := &measure.Recorder{Interval: 5 * time.Millisecond}
	carried, queue := wire.From(a).TrackCarried(recorder), wire.From(a).TrackQueue(recorder)
	stop := lab.Record(recorder)
	sink := packets(t, b, "9")
	sendNumbered(t, packets(t, a, "9"), udpAddr(b, 9), size, n, 0)
	receiveNumbered(t, sink, 100*time.Millisecond)
	stop()

	if total := carried.Points[len(carried.Points)-1].Y; total != n*size {
		t.Errorf("recorded %v bytes carried, want %d", total, n*size)
	}
	if last := queue.Points[len(queue.Points)-1].Y; last <= 0 {
		t.Error("recorded no queue, though packets came faster than the link carries")
	}
	var r measure.Result
	l.Report(&r)
	if err := r.Write(t.TempDir()); err != nil {
		t.Error(err)
	}
	if len(r.Links) != 4 || r.Links[0].Name != "a→b" || r.Links[0].Count.Delivered.Packets != n || r.Links[0].Count.Longest < n/2 {
		t.Errorf("links %+v", r.Links)
	}
	if len(r.Programs) != 1 || r.Programs[0].Name != "true" || r.Programs[0].Host != "a" || r.Programs[0].PeakMemory <= 0 {
		t.Errorf("programs %+v", r.Programs)
	}
}
