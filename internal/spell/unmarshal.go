package spell

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// UnmarshalYAML reads a YAML text strictly. What is wrong with it, and where, is said in the words of whoever wrote it.
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

// find returns where the first value is that does not fit its type, and why. The decoder decides whether it fits: that accepts
// numbers as text, and keys in capitals.
func find(value json.RawMessage, kind reflect.Type) (where string, wrong error) {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	wrong = yaml.UnmarshalStrict(value, reflect.New(kind).Interface())
	if wrong == nil {
		return "", nil
	}
	for name, one := range parts(value, kind) {
		if where, wrong := find(one.value, one.kind); wrong != nil {
			return below(name, where), wrong
		}
	}
	if kind.Kind() == reflect.Struct && wrongType.MatchString(wrong.Error()) { // the name of a struct says nothing about what it accepts
		wrong = cmp.Or(json.Unmarshal(value, new(map[string]json.RawMessage)), wrong)
	}
	return "", wrong
}

// part is a value within another, and the type that it should have.
type part struct {
	value json.RawMessage
	kind  reflect.Type
}

// parts returns the values within a value, by name and in order, as far as its type knows them.
func parts(value json.RawMessage, kind reflect.Type) iter.Seq2[string, part] {
	return func(yield func(string, part) bool) {
		var fields map[string]json.RawMessage
		var items []json.RawMessage
		switch {
		case kind.Kind() == reflect.Struct && json.Unmarshal(value, &fields) == nil:
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if field, has := fieldOf(kind, name); has && !yield(name, part{fields[name], field}) {
					return
				}
			}
		case kind.Kind() == reflect.Map && json.Unmarshal(value, &fields) == nil:
			for _, name := range slices.Sorted(maps.Keys(fields)) {
				if !yield(name, part{fields[name], kind.Elem()}) {
					return
				}
			}
		case kind.Kind() == reflect.Slice && json.Unmarshal(value, &items) == nil:
			for i, item := range items {
				if !yield(fmt.Sprintf("[%d]", i), part{item, kind.Elem()}) {
					return
				}
			}
		}
	}
}

// fieldOf returns the type of the field into which a key is read.
func fieldOf(kind reflect.Type, key string) (reflect.Type, bool) {
	for _, field := range reflect.VisibleFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.Anonymous && strings.EqualFold(cmp.Or(name, field.Name), key) {
			return field.Type, true
		}
	}
	return nil, false
}

// below joins the names of a value and of a value within it.
func below(name, within string) string {
	if within == "" || strings.HasPrefix(within, "[") {
		return name + within
	}
	return name + "." + within
}

// said puts what is wrong after where it is.
func said(where string, wrong error) error {
	text := YAML(wrong).Error()
	switch rest, isKind := strings.CutPrefix(text, theWhole+" "); {
	case where == "":
	case isKind:
		text = where + " " + rest
	default:
		text = where + ": " + text
	}
	return errors.New(text)
}
