// The replicator: the service, or with a command, replication without a manager.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/replicator"
	"github.com/groupcast/groupcast/services/replicator/alone"
)

func main() {
	args := os.Args[1:]
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		os.Exit(alone.Main(args, os.Stdout, os.Stderr))
	}
	if len(args) > 0 && (args[0] == "--help" || args[0] == "-h") {
		fmt.Print("Without a manager: groupcast-replicator send|receive --help\n\n")
	}
	daemon.Main("replicator", replicator.Defaults(), replicator.Run)
}
