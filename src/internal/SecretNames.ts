/**
 * Which names of flags, variables and headers mean a secret, and which are only about one.
 */

const words = (list: string) => new Set(list.split(/\s+/))

/** @internal */
export const wordsOf = (name: string): Array<string> => {
  const parts = name
    .replaceAll(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .map((word) => word.replace(/\d+$/, ""))
  return parts.filter((word) => word !== "")
}

/** A name with one of these says that it holds a secret, wherever in the name it stands: `GITHUB_TOKEN_PROD`. */
const secretWord = /(?:password|passwd|passphrase|passcode|secret|token|apikey|credentials?|authorization)$/

/** These are too short or too common to count anywhere but at the end: `--auth`, but not `--auth-type`. */
const shortWord = /^(?:auth|creds|jwt|otp|pw|psk|cookie|.*(?<!ask|by|com|sur|over|under|tres)pass)$/

/** And these mean something else when they stand alone, as `PWD` does. */
const suffixWord = words("pwd pat")

/** A key is a secret by what it is a key to; most keys are file names, columns and keys of maps. */
const keyKinds = words(
  "api access account admin app application auth cipher crypt decryption enc encryption hmac ingest ingestion license " +
    "master preshared private secret service shared signing storage subscription webhook write"
)

const keyWord = /^(?:access|account|auth|encryption|master|private|secret|shared|signing)key$/

/** What comes after the secret word may say that this is not the secret but something about it. */
const aboutWords = words(
  "age alg algorithm arn audience backend bucket budget class command cmd count dir directory enabled endpoint engine " +
    "env exp expiration expires expiry fd field file filename files format header helper hint host id ids index issuer " +
    "jar kind len length lifetime limit manager max method min mode name names offset only parser path paths policy " +
    "port position prefix prompt provider rate ref region required reset rotation scope scopes server size source " +
    "stdin store title ttl timeout type uri url usage user username var variable version"
)

/** A flag that begins so is a switch: what follows it is not its value. */
const switchWords = words("no not without ask prompt skip show hide enable disable allow require")

/** Taking a name apart is slow, and nearly every name can be told from a secret's without it. @internal */
export const hint = /pass|pw|secret|token|key|cred|auth|jwt|otp|psk|cookie|pat|sig/i

/** @internal */
export const isPlainSecret = (parts: ReadonlyArray<string>): boolean =>
  !aboutWords.has(parts.at(-1) ?? "") &&
  parts.some((word, index) =>
    secretWord.test(word) || keyWord.test(word) || (word === "key" && keyKinds.has(parts[index - 1] ?? ""))
  )

/** @internal */
export const isSecretName = (name: string): boolean => {
  const parts = wordsOf(name)
  const last = parts.at(-1) ?? ""
  return isPlainSecret(parts) || shortWord.test(last) || (parts.length > 1 && suffixWord.has(last))
}

/** @internal */
export const isSecretFlag = (flag: string): boolean => isSecretName(flag) && !switchWords.has(wordsOf(flag)[0] ?? "")

/** @internal */
export const headerName = /^-{0,2}(?:x-.*|(?:proxy-)?authorization|(?:set-)?cookie|(?:private|job)-token|api-key)$/i

/** The whole rest of the line belongs to these: schemes with parameters, and lists of cookies. @internal */
export const isLongHeader = (name: string): boolean => /^(?:(?:proxy-)?authorization|(?:set-)?cookie)$/i.test(name)

/** Values that say whether, not what. @internal */
export const isSwitchValue = (value: string): boolean =>
  /^(?:true|false|yes|no|on|off|none|null|undefined|\d)?$/i.test(value)

/** What follows the name of a secret in a sentence: "option --password requires an argument". @internal */
export const sentenceWords = words(
  "a an and are argument as at be by can cannot could did does error expected expired failed flag for from has have if " +
    "in incorrect instead into invalid is it missing must needs not of on option or parameter permission required " +
    "requires should string text that the then this to too unbound unknown value was were when which will with without " +
    "wrong you your"
)
