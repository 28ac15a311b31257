package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/testdisk"
	"github.com/groupcast/groupcast/services/manager/store"
)

// Large transactions at once, each of which the disk has room for, do not end the store together: those are refused that it has none for.
func TestLargeTransactionsAtOnceLeaveTheirReserve(t *testing.T) {
	dir := testdisk.Memory(t, "size=200m")
	s := openEmbedded(t, filepath.Join(dir, "store"))
	term := lead(t, s, "a")
	fill(t, filepath.Join(dir, "others"), 60<<20)
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

// fill has a file take all of a disk but so much.
func fill(t *testing.T, name string, but int64) {
	t.Helper()
	var stat unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(name), &stat); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(stat.Bavail)*stat.Bsize-but); err != nil {
		t.Fatal(err)
	}
}
