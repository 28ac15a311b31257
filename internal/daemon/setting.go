package daemon

import (
	"encoding"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"unicode"
)

// field is one setting of a config struct, found by its json tag.
type field struct {
	path  []string // as in YAML: store, dataDir
	usage string
	value reflect.Value
}

func (f field) key() string  { return strings.Join(f.path, ".") }
func (f field) flag() string { return strings.ToLower(f.words("-")) }
func (f field) env() string  { return "GROUPCAST_" + strings.ToUpper(f.words("_")) }

// words joins the words of the path: those of store.dataDir are store, data, dir.
func (f field) words(separator string) string {
	var b strings.Builder
	for i, part := range f.path {
		if i > 0 {
			b.WriteString(separator)
		}
		for j, r := range part {
			if j > 0 && unicode.IsUpper(r) {
				b.WriteString(separator)
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fields lists the settings of the struct that v points to, depth first.
func fields(v reflect.Value, path []string) []field {
	v = reflect.Indirect(v)
	var all []field
	for i := range v.NumField() {
		structField := v.Type().Field(i)
		name, _, _ := strings.Cut(structField.Tag.Get("json"), ",")
		below := path
		if name != "" {
			below = append(path[:len(path):len(path)], name)
		}
		usage, isSetting := structField.Tag.Lookup("usage")
		switch {
		case isSetting:
			all = append(all, field{path: below, usage: usage, value: v.Field(i)})
		case structField.Type.Kind() == reflect.Struct:
			all = append(all, fields(v.Field(i), below)...)
		default:
			panic("daemon: setting without usage: " + strings.Join(below, "."))
		}
	}
	return all
}

// flagValue lets pflag set a setting.
type flagValue struct{ value reflect.Value }

func (f flagValue) Set(text string) error { return setText(f.value, text) }

func (f flagValue) Type() string {
	switch f.value.Kind() {
	case reflect.Bool:
		return "bool" // pflag shows it as a switch
	case reflect.Slice:
		return "list"
	case reflect.String:
		return "string"
	default:
		if _, isText := f.value.Interface().(fmt.Stringer); isText {
			return strings.ToLower(f.value.Type().Name())
		}
		return "number"
	}
}

func (f flagValue) String() string {
	if !f.value.IsValid() {
		return ""
	}
	if list, isList := f.value.Interface().([]string); isList {
		return strings.Join(list, ",")
	}
	return fmt.Sprint(f.value.Interface())
}

// setText sets a setting from its text; a list's items are separated by commas.
func setText(v reflect.Value, text string) error {
	if _, is := v.Interface().(slog.Level); is && v.Addr().Interface().(*slog.Level).UnmarshalText([]byte(text)) != nil {
		return errors.New("want debug, info, warn or error")
	}
	if unmarshaler, is := v.Addr().Interface().(encoding.TextUnmarshaler); is {
		return unmarshaler.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		parsed, err := strconv.ParseBool(text)
		if err != nil {
			return errors.New("want true or false")
		}
		v.SetBool(parsed)
	case reflect.Int, reflect.Int64:
		parsed, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return errors.New("want a whole number")
		}
		v.SetInt(parsed)
	case reflect.Slice:
		items := []string{}
		for item := range strings.SplitSeq(text, ",") {
			if item = strings.TrimSpace(item); item != "" {
				items = append(items, item)
			}
		}
		v.Set(reflect.ValueOf(items))
	default:
		panic("daemon: setting of a kind that has no text form: " + v.Type().String())
	}
	return nil
}
