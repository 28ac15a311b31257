package uplink

import (
	"testing"
	"testing/synctest"
	"time"
)

// When no manager is heard that is told once, with the time since when, and once that one is heard again; what soon
// heals is not told.
func TestAwayIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []time.Time
		var r reach
		r.lost() // nobody is to be told
		r.tell = func(since time.Time) { told = append(told, since) }
		r.lost()
		time.Sleep(awayPatience - time.Second)
		r.heard()
		time.Sleep(time.Minute)
		if len(told) > 0 {
			t.Fatalf("what heals soon is told: %v", told)
		}
		broke := time.Now()
		for range 5 {
			r.lost()
			time.Sleep(awayPatience - time.Second)
		}
		r.heard()
		r.heard()
		synctest.Wait()
		if len(told) != 2 || !told[0].Equal(broke) || !told[1].IsZero() {
			t.Errorf("told %v, want %v and that it is over", told, broke)
		}
		r.lost()
		r.tellAgain() // it has not been told so far
		time.Sleep(awayPatience + time.Second)
		r.tellAgain()
		synctest.Wait()
		if len(told) != 4 || !told[3].Equal(told[2]) {
			t.Errorf("told %v, want it once more", told)
		}
		r.heard()
		synctest.Wait()
		told = told[:2]
		r.lost()
		r.stop()
		time.Sleep(time.Minute)
		if r.heard(); len(told) != 2 {
			t.Errorf("told %v after the end", told)
		}
	})
}

// A listener that is told may block: managers are heard all the same, and afterwards it is told the latest news.
func TestNobodyWaitsForWhoIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []bool
		goOn := make(chan struct{})
		r := reach{tell: func(since time.Time) {
			<-goOn
			told = append(told, since.IsZero())
		}}
		for range 2 {
			r.lost()
			time.Sleep(awayPatience)
			synctest.Wait()
			r.heard()
		}
		goOn <- struct{}{}
		synctest.Wait()
		r.stop()
		goOn <- struct{}{}
		synctest.Wait()
		if len(told) != 2 || told[0] || !told[1] {
			t.Errorf("told %v, want that none was heard, and at last that one is", told)
		}
	})
}
