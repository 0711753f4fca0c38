package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

var (
	dataPath   = field.NewPath("data")
	binaryPath = field.NewPath("binaryData")
)

// validateConfigMap bounds all values together, not each. What is immutable stays so (KEP-1412): nodes need not watch it then.
func validateConfigMap(c, old *corev1.ConfigMap) (errs field.ErrorList) {
	if old != nil && isSet(old.Immutable) {
		errs = frozen(c.Immutable, reflect.DeepEqual(c.Data, old.Data))
		if !reflect.DeepEqual(c.BinaryData, old.BinaryData) { // to upstream a map that is empty is not one that is missing
			errs = append(errs, field.Forbidden(binaryPath, immutable))
		}
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, rule.Format(key, dataPath.Key(key), utilvalidation.IsConfigMapKey)...)
		if _, both := c.BinaryData[key]; both {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, rule.Format(key, binaryPath.Key(key), utilvalidation.IsConfigMapKey)...)
		size += len(c.BinaryData[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(field.NewPath(""), "", corev1.MaxSecretSize))
	}
	return errs
}

const immutable = "field is immutable when `immutable` is set"

func isSet(b *bool) bool { return b != nil && *b }

// frozen checks what was declared not to change any more.
func frozen(still *bool, same bool) (errs field.ErrorList) {
	if !isSet(still) {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutable))
	}
	if !same {
		errs = append(errs, field.Forbidden(dataPath, immutable))
	}
	return errs
}

// validateSecret freezes the type too: programs trust that a Secret of a type has that type's keys.
func validateSecret(s, old *corev1.Secret) (errs field.ErrorList) {
	if old != nil {
		errs = append(errs, validation.ValidateImmutableField(s.Type, old.Type, field.NewPath("type"))...)
		if isSet(old.Immutable) {
			errs = append(errs, frozen(s.Immutable, maps.EqualFunc(s.Data, old.Data, bytes.Equal))...)
		}
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		errs = append(errs, rule.Format(key, dataPath.Key(key), utilvalidation.IsConfigMapKey)...)
		size += len(s.Data[key])
	}
	if size > corev1.MaxSecretSize {
		errs = append(errs, field.TooLong(dataPath, "", corev1.MaxSecretSize))
	}
	return append(errs, validateSecretType(s)...)
}

// validateSecretType asks for the keys that the type promises.
func validateSecretType(s *corev1.Secret) (errs field.ErrorList) {
	need := func(keys ...string) {
		for _, key := range keys {
			if _, ok := s.Data[key]; !ok {
				errs = append(errs, field.Required(dataPath.Key(key), ""))
			}
		}
	}
	switch s.Type {
	case corev1.SecretTypeServiceAccountToken:
		if s.Annotations[corev1.ServiceAccountNameKey] == "" {
			errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(corev1.ServiceAccountNameKey), ""))
		}
	case corev1.SecretTypeDockercfg:
		need(corev1.DockerConfigKey)
		errs = append(errs, validateJSON(s, corev1.DockerConfigKey)...)
	case corev1.SecretTypeDockerConfigJson:
		need(corev1.DockerConfigJsonKey)
		errs = append(errs, validateJSON(s, corev1.DockerConfigJsonKey)...)
	case corev1.SecretTypeBasicAuth:
		_, user := s.Data[corev1.BasicAuthUsernameKey]
		if _, password := s.Data[corev1.BasicAuthPasswordKey]; !user && !password {
			need(corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
		}
	case corev1.SecretTypeSSHAuth:
		if len(s.Data[corev1.SSHAuthPrivateKey]) == 0 {
			errs = append(errs, field.Required(dataPath.Key(corev1.SSHAuthPrivateKey), ""))
		}
	case corev1.SecretTypeTLS:
		need(corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	return errs
}

// validateJSON checks pull secrets, whose value is never part of an error.
func validateJSON(s *corev1.Secret, key string) field.ErrorList {
	data, ok := s.Data[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(data, &map[string]any{}); err != nil {
		return field.ErrorList{field.Invalid(dataPath.Key(key), "<secret contents redacted>", err.Error())}
	}
	return nil
}
