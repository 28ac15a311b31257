// The session agent.
package main

import (
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/agent"
)

func main() { daemon.Main("agent", agent.Defaults(), agent.Run) }
