package cli

import (
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/groupcast/groupcast/sdk"
)

// fieldOf is the annotation of a flag, or of a command with a PATH, that names the field of a request which it sets.
const fieldOf = "groupcast_field"

// sets notes which fields of a request flags set.
func sets(flags *pflag.FlagSet, fields map[string]string) {
	for flag, field := range fields {
		known := flags.Lookup(flag).Annotations[fieldOf]
		if err := flags.SetAnnotation(flag, fieldOf, append(known, field)); err != nil {
			panic("cli: " + err.Error())
		}
	}
}

// inFlags returns what an error says. What managers refuse is named by its flag, and not by the API's field, and so are other fields that
// they mention by their whole path.
func inFlags(command *cobra.Command, err error) string {
	text := err.Error()
	if sdk.CodeOf(err) != sdk.InvalidArgument {
		return text
	}
	name := func(field, as string) {
		text = regexp.MustCompile(`(^|; )`+regexp.QuoteMeta(field)+`: `).ReplaceAllString(text, "${1}"+as+": ")
		if strings.Contains(field, ".") { // others are words that a message may have
			text = regexp.MustCompile(` `+regexp.QuoteMeta(field)+`([ ,;]|$)`).ReplaceAllString(text, " "+as+"${1}")
		}
	}
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		for _, field := range flag.Annotations[fieldOf] {
			name(field, "--"+flag.Name)
		}
	})
	if field, is := command.Annotations[fieldOf]; is {
		name(field, "PATH")
	}
	return text
}
