// The group and session manager.
package main

import (
	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/services/manager"
)

func main() { daemon.Main("manager", manager.Defaults(), manager.Run) }
