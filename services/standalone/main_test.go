package standalone_test

import (
	"os"
	"testing"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	status := m.Run()
	testprocess.Remove()
	os.Exit(status)
}
