package gather_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Who waits for managers that say nothing can give up.
func TestSearchEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connections are made, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	config, err := uplink.ReadConfig(managertest.Start(t).Access)
	if err != nil {
		t.Fatal(err)
	}
	config.Endpoints = []string{silent.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	begun := time.Now()
	_, err = gather.Dial(ctx, config, "archive", gather.Options{})
	if took := time.Since(begun); sdk.CodeOf(err) != sdk.Interrupted || took > 5*time.Second {
		t.Errorf("%v after %v, want an interruption at once", err, took)
	}
}

// A client may be closed twice, as by a deferred Close after another.
func TestClosedTwice(t *testing.T) {
	config, err := uplink.ReadConfig(managertest.Start(t).Access)
	if err != nil {
		t.Fatal(err)
	}
	client, err := gather.Dial(t.Context(), config, "127.0.0.1:1", gather.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}
