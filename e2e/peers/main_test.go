package main

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/groupcast/groupcast/internal/testprocess"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(testprocess.Exit))
}
