package main

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/e2e/fleet"
)

func TestMain(m *testing.M) {
	code := m.Run()
	fleet.Clean()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
