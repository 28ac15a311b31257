// Package labtest ties a lab to a test, and compares what came over it.
package labtest

import (
	"os"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab"
)

// New declares a lab that ends with the test. Where the lab cannot run, the
// test fails if CI is set, and is skipped with the reason otherwise.
func New(t testing.TB, seed uint64) *lab.Lab {
	t.Helper()
	Require(t)
	t.Logf("lab seed %d", seed)
	return lab.New(seed)
}

// Require ends the test if the lab cannot run here.
func Require(t testing.TB) {
	t.Helper()
	_ = os.Getenv("GROUPCAST_LAB") // of what the result depends on, that go's cache of results knows
	err := lab.Missing()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// Start starts l and closes it when the test ends, whatever its outcome.
func Start(t testing.TB, l *lab.Lab) {
	t.Helper()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close the lab: %v", err)
		}
	})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
}
