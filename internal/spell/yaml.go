package spell

import (
	"cmp"
	"errors"
	"regexp"
	"strings"
	"unicode"
)

// wrongType matches how a value of a wrong kind is reported: in names of Go that nobody has written.
var wrongType = regexp.MustCompile(`cannot unmarshal (\S+).* into Go (?:struct field \w*\.(\S+)|value) of type (.+)$`)

// kinds say what a value is; wanted says what a Go type accepts, by the beginning of its name.
var (
	kinds  = map[string]string{"number": "a number", "string": "text", "array": "a list", "object": "a mapping", "bool": "true or false"}
	wanted = []struct{ begins, want string }{
		{"int", "a whole number"}, {"uint", "a whole number"}, {"float", "a number"}, {"bool", "true or false"}, {"string", "text"}, {"[]", "a list"}, {"map", "a mapping"}, {"struct", "a mapping"},
	}
)

// YAML says what is wrong with a YAML text in the words of whoever wrote it.
func YAML(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, step := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, step)
	}
	if found := wrongType.FindStringSubmatch(text); found != nil {
		text = place(found[2]) + " cannot be " + cmp.Or(kinds[found[1]], found[1])
		if want := wantedFor(found[3]); want != "" {
			text += ": want " + want
		}
	}
	return errors.New(text)
}

// theWhole is what a text is called if it is of a wrong kind itself.
const theWhole = "the whole"

// place names where something is, without the names of Go types, which begin with a capital.
func place(path string) string {
	var written []string
	for name := range strings.SplitSeq(path, ".") {
		if name != "" && !unicode.IsUpper(rune(name[0])) {
			written = append(written, name)
		}
	}
	return cmp.Or(strings.Join(written, "."), theWhole)
}

// wantedFor says what a type accepts; nothing for a type with a name of its own.
func wantedFor(kind string) string {
	for _, one := range wanted {
		if strings.HasPrefix(kind, one.begins) {
			return one.want
		}
	}
	return ""
}
