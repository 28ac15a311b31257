package fleet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/sdk/gather"
)

// Ports of gatherers: for clients' calls, and for their bytes.
const (
	GathererPort     = 7420
	GathererDataPort = 7421
)

// Gatherer starts a gatherer named after its host, and waits until it answers. The policy applies
// from the beginning; what it gathers is removed with the fleet.
func (f *Fleet) Gatherer(ctx context.Context, host *lab.Host, policy gather.Policy, flags ...string) (*lab.Process, error) {
	text, err := policy.Text()
	if err != nil {
		return nil, err
	}
	name := strings.ToLower(host.Name())
	own := filepath.Join(f.dir, name)
	if err := os.MkdirAll(own, 0o700); err != nil {
		return nil, err
	}
	first := filepath.Join(own, "first.yaml")
	if err := os.WriteFile(first, text, 0o600); err != nil {
		return nil, err
	}
	process, err := f.service(ctx, host, "gatherer", name, append([]string{
		"--grpc-listen", fmt.Sprintf("0.0.0.0:%d", GathererPort), "--data-listen", fmt.Sprintf("0.0.0.0:%d", GathererDataPort),
		"--data-addresses", host.At(GathererDataPort), "--store-dir", f.Gathered(host), "--store-reserve", "0",
		"--policy-first", first, "--policy-file", filepath.Join(own, "policy.yaml"),
	}, flags...)...)
	if err != nil {
		return nil, err
	}
	watcher, err := f.Uploader(ctx, Dialer{Host: host}, host, "")
	if err != nil {
		return nil, err
	}
	defer watcher.Close()
	return process, await(ctx, process, func() bool {
		_, err := watcher.Clients(ctx)
		return err == nil
	})
}

// Gathered is where the gatherer on a host keeps what came.
func (f *Fleet) Gathered(host *lab.Host) string {
	return filepath.Join(f.dir, strings.ToLower(host.Name()), "gathered")
}

// Uploader returns a client of the gatherer on a host, with a given name.
func (f *Fleet) Uploader(ctx context.Context, dialer Dialer, gatherer *lab.Host, name string) (*gather.Client, error) {
	if err := f.Reach(ctx, dialer.Host); err != nil {
		return nil, err
	}
	return gather.Open(ctx, f.Access(), gatherer.At(GathererPort), gather.Options{As: name, Dialer: dialer})
}
