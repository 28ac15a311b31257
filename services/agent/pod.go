package agent

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/uplink"
)

// enrollPause is the pause before managers are asked again that could not answer: where
// a cluster starts, agents are often there first.
const enrollPause = time.Second

// enrollPod exchanges the token of this pod's ServiceAccount for credentials. That is done at
// every start: what an earlier start left may have expired while the pod was not running.
func enrollPod(ctx context.Context, env daemon.Env, config *Config) error {
	for {
		err := enrollOnce(ctx, env, config)
		code := status.Code(err)
		if err == nil || code != codes.Unavailable && code != codes.ResourceExhausted && code != codes.DeadlineExceeded {
			return err
		}
		env.Log.Warn("not let in yet; trying again", "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(enrollPause):
		}
	}
}

func enrollOnce(ctx context.Context, env daemon.Env, config *Config) error {
	ca, err := identity.ReadAuthority(config.AuthorityFile)
	if err != nil {
		return err
	}
	token, err := os.ReadFile(config.ServiceAccountTokenFile) // the kubelet renews it
	if err != nil {
		return fmt.Errorf("read the ServiceAccount's token: %w", err)
	}
	_, err = uplink.EnrollPod(ctx, config.uplink(), ca, strings.TrimSpace(string(token)), uplink.Over(env.Network))
	if err != nil {
		return fmt.Errorf("enroll with the ServiceAccount's token: %w", err)
	}
	return nil
}
