package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/groupcast/groupcast/internal/spell"
)

// markUnknownHelp makes help with a command that does not exist a usage error, as is to call one: cobra shows the help of what is above it.
func markUnknownHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("cli: " + err.Error())
	}
	help.Args = func(_ *cobra.Command, args []string) error {
		about, rest, err := root.Find(args)
		if err == nil && about.HasSubCommands() {
			err = unknownCommand(about, rest)
		}
		if err != nil {
			return usageError{fmt.Errorf("%w (see '%s --help')", err, about.CommandPath())}
		}
		return nil
	}
}

func unknownCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	var names []string
	for _, known := range command.Commands() {
		if known.IsAvailableCommand() {
			names = append(names, known.Name())
		}
	}
	if near := spell.Alike(args[0], names); near != "" {
		err = fmt.Errorf("%w: did you mean %q?", err, near)
	}
	return err
}
