package envoy_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		testprocess.Remove()
		os.Exit(status)
	}))
}
