package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/groupcast/groupcast/services/manager/store"
)

func testLeaders(t *testing.T, s *store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	seen := make(chan store.Leader, 100)
	go func() { _ = s.Leaders(ctx, func(leader store.Leader) { seen <- leader }) }()
	await := func(name string, number uint64) {
		t.Helper()
		for {
			select {
			case leader := <-seen:
				if leader.Name == name && leader.Term == number {
					return
				}
			case <-ctx.Done():
				t.Fatalf("did not see %q lead in term %d", name, number)
			}
		}
	}
	await("", 0)
	first := lead(t, s, "a")
	await("a", first.Number)
	first.Resign()
	await("", 0)
	second := lead(t, s, "b")
	await("b", second.Number)
}
