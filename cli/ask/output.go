package ask

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// An Output is the form in which a command answers: text, or JSON or YAML for programs, which hold the same.
type Output struct {
	word string
	also []string
}

// BindOutput adds the flags -o and --output to a set, or returns the form of a set that has them.
func BindOutput(fs *flag.FlagSet) *Output {
	if f := fs.Lookup("o"); f != nil {
		if o, ok := f.Value.(*Output); ok {
			return o
		}
	}
	o := new(Output)
	for _, name := range []string{"output", "o"} {
		fs.Var(o, name, "json or yaml (default: text)")
	}
	return o
}

// Also takes another form, which the command writes itself.
func (o *Output) Also(word string) { o.also = append(o.also, word) }

// String is the word of the form; "" is text.
func (o *Output) String() string { return o.word }

// Set refuses other words when flags are read, before anything is done.
func (o *Output) Set(word string) error {
	known := append([]string{"json", "yaml"}, o.also...)
	if word != "text" && !slices.Contains(known, word) {
		return fmt.Errorf("it is neither %s", strings.Join(known, " nor "))
	}
	if o.word = word; word == "text" {
		o.word = ""
	}
	return nil
}

// Text says that people read the answer.
func (o *Output) Text() bool { return o.word == "" }

// Print writes a value in a form that is not text.
func (o *Output) Print(w io.Writer, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil && o.word == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", strings.TrimSuffix(string(data), "\n"))
	return err
}

// Next writes one value of several that come one after the other: a line of JSON, or a document of YAML.
func (o *Output) Next(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err == nil && o.word == "yaml" {
		data, err = yaml.JSONToYAML(data)
		data = append([]byte("---\n"), data...)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", strings.TrimSuffix(string(data), "\n"))
	return err
}
