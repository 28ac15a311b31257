package manager_test

import (
	"testing"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	testprocess.Exit(m.Run())
}
