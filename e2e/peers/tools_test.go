package main

import (
	"context"
	"slices"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// A tool that is not installed is named as missing; every other has to deliver.
func TestEveryToolDeliversOrIsNamedAsMissing(t *testing.T) {
	labtest.Require(t)
	s := settings{size: link.MiB, runs: 1}
	for _, peer := range tool.All() {
		if slices.Contains(changes, peer.Name()) {
			continue // it sends directories: TestToolsBringADirectoryUpToDate
		}
		t.Run(peer.Name(), func(t *testing.T) {
			rows, err := s.compare(context.Background(), []tool.Tool{peer}, places[0])
			if err != nil {
				t.Fatal(err)
			}
			r := rows[0]
			t.Log(r)
			if installed := len(tool.Missing(peer)) == 0; installed == (r.without != "") {
				t.Errorf("installed: %v, but the row says %q", installed, r)
			}
		})
	}
}
