package gather_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/uplink"
	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/sdk/gather"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// A program that waits for managers that say nothing can give up.
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

// What the API cannot carry is refused at once.
func TestOptionsAreUTF8(t *testing.T) {
	access := managertest.Start(t).Access
	for _, options := range []gather.Options{{As: "caf\xe9"}, {Labels: map[string]string{"site": "caf\xe9"}}, {Labels: map[string]string{"caf\xe9": "a"}}, {As: "café"}} {
		client, err := gather.Open(t.Context(), access, "127.0.0.1:1", options)
		if err == nil {
			err = client.Close()
		}
		if want := options.As != "café"; want != (sdk.CodeOf(err) == sdk.InvalidArgument && strings.Contains(err.Error(), `caf\xe9`)) {
			t.Errorf("%q, %q: %v", options.As, options.Labels, err)
		}
	}
}

// If nobody listens, an upload says so at once, and again when its time is over.
func TestNobodyListens(t *testing.T) {
	client, err := gather.Open(t.Context(), managertest.Start(t).Access, "127.0.0.1:1", gather.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var last gather.Progress
	said := 0
	_, err = client.Upload(ctx, file, gather.FileOptions{Progress: func(p gather.Progress) {
		if last = p; p.Detached != "" {
			said++
		}
	}})
	if sdk.CodeOf(err) != sdk.TimedOut || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v, want that its time is over, and why", err)
	}
	if said < 2 || !last.Ended || last.Sent != 0 || !strings.Contains(last.Detached, "connection refused") {
		t.Errorf("%d times it was said why, last in %+v", said, last)
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
