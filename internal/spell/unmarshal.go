package spell

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// UnmarshalYAML reads a YAML text strictly. What is wrong with it is said in the words of who wrote it, and where.
func UnmarshalYAML(text []byte, into any) error {
	err := yaml.UnmarshalStrict(text, into)
	if err == nil {
		return nil
	}
	whole, unreadable := yaml.YAMLToJSONStrict(text)
	if unreadable != nil {
		return YAML(err)
	}
	where, wrong := find(whole, reflect.TypeOf(into))
	if wrong == nil {
		return YAML(err)
	}
	return said(where, wrong)
}

// find returns where the first value is that its type does not take, and why.
func find(value json.RawMessage, kind reflect.Type) (where string, wrong error) {
	switch {
	case kind.Kind() == reflect.Pointer:
		return find(value, kind.Elem())
	case isRead(kind):
	case kind.Kind() == reflect.Struct:
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(value, &fields); err != nil {
			return "", err
		}
		return findIn(fields, kind)
	case kind.Kind() == reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(value, &items) == nil {
			for i, item := range items {
				if where, wrong := find(item, kind.Elem()); wrong != nil {
					return below(fmt.Sprintf("[%d]", i), where), wrong
				}
			}
			return "", nil
		}
	}
	return "", json.Unmarshal(value, reflect.New(kind).Interface())
}

// isRead reports whether a type reads its values itself.
func isRead(kind reflect.Type) bool {
	reads := reflect.PointerTo(kind)
	return reads.Implements(reflect.TypeFor[json.Unmarshaler]()) || reads.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

func findIn(fields map[string]json.RawMessage, kind reflect.Type) (where string, wrong error) {
	known := make(map[string]reflect.Type)
	for _, field := range reflect.VisibleFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = field.Type
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if known[name] == nil || name == "" {
			return "", fmt.Errorf("unknown field %q", name)
		}
		if where, wrong := find(fields[name], known[name]); wrong != nil {
			return below(name, where), wrong
		}
	}
	return "", nil
}

// below joins the names of a value and of one within.
func below(name, within string) string {
	if within == "" || strings.HasPrefix(within, "[") {
		return name + within
	}
	return name + "." + within
}

// said puts what is wrong behind where it is.
func said(where string, wrong error) error {
	text := YAML(wrong).Error()
	switch rest, isKind := strings.CutPrefix(text, theWhole+" "); {
	case where == "":
	case isKind:
		text = where + " " + rest
	default:
		text = where + ": " + text
	}
	return fmt.Errorf("%s", text)
}
