package sdk_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/groupcast/groupcast/services/manager/managertest"
)

// adminFile is the configuration that a manager wrote for its operator.
var adminFile string

// TestMain runs a manager for the examples.
func TestMain(m *testing.M) {
	var setup stage
	adminFile = managertest.Start(&setup).Access
	status := m.Run()
	setup.clear()
	os.Exit(status)
}

// stage is what the harness wants of a test, for all of them together.
type stage struct {
	testing.TB
	cleanups []func()
}

func (s *stage) Helper()                           {}
func (s *stage) Context() context.Context          { return context.Background() }
func (s *stage) Cleanup(clean func())              { s.cleanups = append(s.cleanups, clean) }
func (s *stage) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *stage) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (s *stage) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

func (s *stage) TempDir() string {
	dir, err := os.MkdirTemp("", "groupcast-sdk-")
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *stage) clear() {
	for i := range s.cleanups {
		s.cleanups[len(s.cleanups)-1-i]()
	}
}
