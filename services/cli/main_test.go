package cli

import (
	"os"
	"testing"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	code := m.Run()
	testprocess.Remove()
	os.Exit(code)
}
