package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	systemd "github.com/coreos/go-systemd/v22/daemon"
)

// readyInterval is how often it is looked whether the service can do its work, to tell systemd.
const readyInterval = 200 * time.Millisecond

// tellSystemd tells systemd, if that has started this process and wants to know (Type=notify), when the service has begun,
// and keeps its status true until it stops: "ready", or what is in the way. Who waits for others, as an agent for its managers,
// has begun.
func (a *Admin) tellSystemd(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(readyInterval)
	defer tick.Stop()
	told, begun := "", false
	for {
		problem := a.IsReady()
		news, status := "", "ready"
		if problem != nil {
			status = strings.ReplaceAll(problem.Error(), "\n", "; ")
		}
		if !begun && !errors.Is(problem, errStarting) {
			begun, news = true, systemd.SdNotifyReady+"\n"
		}
		if news != "" || status != told {
			wanted, err := systemd.SdNotify(false, fmt.Sprintf("%sSTATUS=%s", news, status))
			if err != nil {
				log.Warn("systemd cannot be told how this service is", "error", err)
			}
			if err != nil || !wanted {
				return
			}
			told = status
		}
		select {
		case <-ctx.Done():
			_, _ = systemd.SdNotify(false, systemd.SdNotifyStopping) // systemd sees the process end anyway
			return
		case <-a.stopped:
			return
		case <-tick.C:
		}
	}
}
