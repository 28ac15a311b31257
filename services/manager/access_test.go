package manager_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
	"github.com/groupcast/groupcast/services/manager/managertest"
)

// Managers that know nothing of each other each have a first operator of their own, though the configurations lie in one directory.
func TestOperatorsLieBesideEachOther(t *testing.T) {
	dir := t.TempDir()
	files := []string{filepath.Join(dir, "one.yaml"), filepath.Join(dir, "two.yaml"), filepath.Join(dir, "three")}
	for _, file := range files {
		p := managertest.NewProcess(t, t.TempDir(), "--admin-access-file="+file)
		p.Access = file
		p.Start(t)
		p.WaitServing(t)
	}
	// A client that asks one manager with what the other trusts is told why nobody is a manager there, before the call is given up.
	strange, other := mustRead(t, files[0]), mustRead(t, files[1])
	strange.Endpoints = other.Endpoints
	client, err := sdk.Dial(strange)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	go func() {
		for client.HandshakeError() == nil && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	if _, err := client.Status(ctx); err == nil {
		t.Error("a manager of another CA was believed")
	}
	if err := client.HandshakeError(); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("the handshake with it: %v", err)
	}
	for _, file := range files {
		client, err := sdk.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Status(t.Context()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
