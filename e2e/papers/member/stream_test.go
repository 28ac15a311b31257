package main

import (
	"testing"
	"testing/synctest"
)

func TestBacklogGivesWhatWasAddedAndWaitsForMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog()
		if !b.add(5) || b.add(2) {
			t.Error("the first is the first alone")
		}
		buffer := make([]byte, 4)
		for _, want := range []int{4, 3} {
			if n, err := b.Read(buffer); n != want || err != nil {
				t.Errorf("read %d, %v; want %d", n, err, want)
			}
		}
		read := make(chan int)
		go func() {
			n, _ := b.Read(buffer)
			read <- n
		}()
		synctest.Wait()
		select {
		case n := <-read:
			t.Errorf("read %d of nothing", n)
		default:
		}
		b.add(1)
		if n := <-read; n != 1 {
			t.Errorf("read %d, want 1", n)
		}
	})
}
