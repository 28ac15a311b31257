// Package daemon is the one way a service of Groupcast becomes a process: its
// configuration (one struct, read from defaults, a YAML file, the environment
// and flags, in this order), its log, its admin port, its gRPC server and its
// orderly end.
//
//	func main() { daemon.Main("manager", manager.Defaults(), manager.Run) }
package daemon
