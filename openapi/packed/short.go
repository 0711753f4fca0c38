package packed

// Short are texts that schemas repeat. The packed file has a byte for each that no JSON has, and is a twentieth smaller for it.
var Short = [...]string{1: `"description":`, 2: `"allOf":[{"$ref":"#/components/schemas/io.k8s.`, 3: `#/components/schemas/io.k8s.`,
	4: `"type":"`, 5: `"x-kubernetes-`, 6: `"required":["`, 7: `"properties":{`, 8: `"default":`, 11: ` must be `, 12: ` the `, 14: `\n\n`,
	15: `"format":"int`}

// lengthen puts the texts back; it leaves other documents as they are.
func lengthen(b []byte) []byte {
	out := make([]byte, 0, len(b)+len(b)/4)
	for _, c := range b {
		if int(c) < len(Short) && Short[c] != "" {
			out = append(out, Short[c]...)
		} else {
			out = append(out, c)
		}
	}
	return out
}
