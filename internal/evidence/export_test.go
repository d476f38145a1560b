package evidence

// MaxEvidence is the bound of packed evidence, in bytes.
const MaxEvidence = maxEvidence
