package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/manager/store"
	"github.com/groupcast/groupcast/services/manager/store/storetest"
)

// Large transactions at once, each of which the disk has room for, do not end the store together: those are refused that it has none for.
func TestLargeTransactionsAtOnceLeaveTheirReserve(t *testing.T) {
	dir := testdisk.Memory(t, "size=200m")
	s := openEmbedded(t, filepath.Join(dir, "store"))
	term := lead(t, s, "a")
	storetest.Fill(t, filepath.Join(dir, "others"), 60<<20)
	value := make([]byte, 2<<20)
	errs := make([]error, 40)
	var writing sync.WaitGroup
	for i := range errs {
		writing.Go(func() {
			_, errs[i] = commit(t, s, term, nil, store.Put(fmt.Sprint("tree/", i), value))
		})
	}
	writing.Wait()
	refused := 0
	for _, err := range errs {
		if errors.Is(err, store.ErrFull) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-s.Failed():
		t.Fatalf("the store has ended: %v", err)
	default:
	}
	if refused < 30 {
		t.Errorf("%d of %d were refused", refused, len(errs))
	}
	if err := os.Remove(filepath.Join(dir, "others")); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, term, store.Put("tree/after", value))
}
