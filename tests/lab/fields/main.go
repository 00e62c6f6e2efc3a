// Prints how Go writes the fields of each struct of the built-in kinds: which it drops when they hold nothing, and which
// it always writes, and what with. Corral writes them alike.
//
//	cd tests/lab/fields && go run -mod=mod . > ../../../crates/corral/src/apiserver/recorded/fields.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Fields of one struct.
type Fields struct {
	Dropped []string                   `json:"dropped,omitempty"`
	Kept    map[string]json.RawMessage `json:"kept,omitempty"`
}

var marshaler = reflect.TypeFor[json.Marshaler]()

func main() {
	if err := print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func print() error {
	if err := apiextensions.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	if err := apiregistration.AddToScheme(scheme.Scheme); err != nil {
		return err
	}
	structs := map[string]*Fields{}
	for kind, goType := range scheme.Scheme.AllKnownTypes() {
		stable := !strings.Contains(kind.Version, "alpha") && !strings.Contains(kind.Version, "beta")
		object := !strings.HasSuffix(kind.Kind, "Options") && !strings.HasSuffix(kind.Kind, "List")
		if stable && object && kind.Version != "__internal" {
			if err := walk(goType, structs); err != nil {
				return err
			}
		}
	}
	names := []string{}
	for name, fields := range structs {
		if len(fields.Dropped)+len(fields.Kept) > 0 {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	lines := []string{}
	for _, name := range names {
		sort.Strings(structs[name].Dropped)
		text, err := json.Marshal(structs[name])
		if err != nil {
			return err
		}
		lines = append(lines, fmt.Sprintf(" %q: %s", name, text))
	}
	fmt.Printf("{\n%s\n}\n", strings.Join(lines, ",\n"))
	return nil
}

// walk collects a type and all types inside of it. What writes itself is none of our business.
func walk(goType reflect.Type, structs map[string]*Fields) error {
	switch goType.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return walk(goType.Elem(), structs)
	case reflect.Struct:
		if goType.Implements(marshaler) || reflect.PointerTo(goType).Implements(marshaler) {
			return nil
		}
		name := "io." + strings.TrimPrefix(strings.ReplaceAll(goType.PkgPath(), "/", "."), "k8s.io.")
		name = strings.Replace(name, "io.", "io.k8s.", 1) + "." + goType.Name()
		if _, known := structs[name]; known {
			return nil
		}
		structs[name] = &Fields{Kept: map[string]json.RawMessage{}}
		return collect(goType, structs[name], structs)
	}
	return nil
}

func collect(goType reflect.Type, fields *Fields, structs map[string]*Fields) error {
	for place := range goType.NumField() {
		field := goType.Field(place)
		tag := strings.Split(field.Tag.Get("json"), ",")
		name, options := tag[0], tag[1:]
		if field.Anonymous && name == "" {
			if err := collect(field.Type, fields, structs); err != nil {
				return err
			}
			continue
		}
		if name == "-" || name == "" || name == "kind" || name == "apiVersion" {
			continue
		}
		if err := walk(field.Type, structs); err != nil {
			return err
		}
		kind := field.Type.Kind()
		switch {
		case slices.Contains(options, "omitzero"):
			fields.Dropped = append(fields.Dropped, name)
		case slices.Contains(options, "omitempty") && kind != reflect.Struct:
			if kind != reflect.Pointer && kind != reflect.Interface {
				fields.Dropped = append(fields.Dropped, name)
			}
		default:
			zero, err := json.Marshal(reflect.Zero(field.Type).Interface())
			if err != nil {
				return err
			}
			fields.Kept[name] = zero
		}
	}
	return nil
}
