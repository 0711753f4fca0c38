package apply

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/resource/codec"
)

// A Configuration holds an applied configuration. It is good for one Apply, which may make it a part of the object.
type Configuration struct {
	Twice []error // keys that it has more than once, in the words of the reader of YAML, though it may be JSON

	doc map[string]any
}

// Read reads an applied configuration, YAML or JSON. One that can't be read is a 400.
func Read(patch []byte) (*Configuration, error) {
	if c, ok, err := readJSON(patch); ok {
		return c, err
	}
	doc, twice, err := codec.FromYAML(patch)
	if err != nil {
		return nil, unreadable(patch, err)
	}
	if err := codec.CheckDepth(doc); err != nil {
		return nil, tooDeep(err)
	}
	c := &Configuration{Twice: twice}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(doc, &c.doc); err != nil {
		return nil, unreadable(patch, err)
	}
	if c.doc == nil {
		c.doc = map[string]any{} // it says null, or nothing
	}
	return c, nil
}

// readJSON is Read of a JSON object, which is cheaper than to read it as YAML. It reports whether the patch is one: YAML in flow style
// looks like it.
func readJSON(patch []byte) (c *Configuration, ok bool, err error) {
	if !bytes.HasPrefix(bytes.TrimLeft(patch, " \t\r\n"), []byte("{")) {
		return nil, false, nil
	}
	if err := codec.CheckDepth(patch); err != nil {
		return nil, json.Valid(patch), tooDeep(err)
	}
	doc, twice, err := codec.UnmarshalTree(patch)
	if err != nil {
		return nil, json.Valid(patch), unreadable(patch, err)
	}
	if c = (&Configuration{doc: doc}); len(twice) > 0 {
		_, c.Twice, _ = codec.FromYAML(patch) // it can be read
	}
	return c, true, nil
}

// Encodable says that a patch can't be put as JSON, which servers since 1.37 say before anything else: their audit logs hold it so.
// It may be YAML if it is to be applied.
func Encodable(patch []byte, applied bool) error {
	switch {
	case !applied && !json.Valid(patch):
		return apierrors.NewBadRequest("invalid JSON patch")
	case !applied, bytes.HasPrefix(bytes.TrimLeftFunc(patch, unicode.IsSpace), []byte("{")):
		return nil
	}
	err := codec.CheckAliases(patch)
	if err == nil {
		_, err = yaml.YAMLToJSON(patch)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("error encoding patch: %v", err))
	}
	return nil
}

func tooDeep(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}

// unreadable says why an applied configuration can't be read, as the reader of YAML has it.
func unreadable(patch []byte, err error) error {
	var m map[string]any
	if aerr := codec.CheckAliases(patch); aerr != nil {
		err = aerr
	} else if yerr := yaml.Unmarshal(patch, &m); yerr != nil {
		err = yerr
	}
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}
