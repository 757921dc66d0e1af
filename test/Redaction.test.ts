import { assert, describe, it } from "@effect/vitest"
import * as Arbitrary from "effect/Arbitrary"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Redaction from "../src/Redaction.ts"

const { argv, text } = Redaction.standard

/** `‹…›` marks what must go, so that a case says both what is given and what is left. */
const given = (marked: string) => marked.replaceAll(/[‹›]/g, "")
const left = (marked: string) => marked.replaceAll(/‹[^›]*›/g, Redaction.replacement)

// Put together here, so that no scanner takes this file for a leak.
const digits = "0123456789abcdefghijABCDEFGHIJ0123456789"
const github = `ghp_${digits.slice(0, 36)}`
const jwt = `eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.${digits}`
const awsId = `AKIA${"IOSFODNN7EXAMPLE"}`
const awsSecret = `wJalrXUtnFEMI/K7MDENG/${"bPxRfiCYEXAMPLEKEY"}`
const pem = (label: string) =>
  `-----BEGIN ${label}PRIVATE KEY-----\nMIIEow/+=\nIBAAKCAQ\n-----END ${label}PRIVATE KEY-----`

describe("Redaction", () => {
  describe("argv", () => {
    it.each<[Array<string>]>([
      [["mysql", "--password", "‹hunter2›", "--host", "db"]],
      [["mysql", "--password=‹hunter2›"]],
      [["mysql", "--password=‹a b&c;d'e\"f›", "x"]],
      [["x", "--api-key", "‹k›", "--api_key=‹k k›", "--apiKey", "‹k›", "--x-api-key", "‹k›"]],
      [["x", "--token", "‹t›", "--auth-token", "‹t›", "--access_token=‹t›", "--github-token", "‹t›"]],
      [["x", "--client-secret", "‹s›", "--secret", "‹s›", "--aws-secret-access-key", "‹s›", "--secret-key=‹s›"]],
      [["x", "--auth", "‹user:pw›", "--basic-auth=‹u:p›", "--passphrase", "‹two words›", "--db-pass", "‹x›"]],
      [["x", "--auth", "Bearer ‹abc›", "--token", "Bearer"].map((arg) => arg === "Bearer" ? "‹Bearer›" : arg)],
      [["java", "-storepass", "‹changeit›", "-Ddb.password=‹x y›", "-jar", "a.jar"]],
      [["x", "--private-key", "‹0xabc›", "--encryption-key=‹e›", "--account-key", "‹a›", "--credentials", "‹c›"]],
      [["x", "--password", "‹-12345›", "--password", "‹-!x›"]],
      [["x", "--password", "--token", "‹t›", "--password", "-v", "--password", "-", "--password", "--", "y"]],
      [["x", "--password"]],
      [["x", "--password", "", "--password="]],
      [["x", "--no-password", "keep", "--ask-pass", "keep", "--skip-auth", "keep", "--no-token", "keep"]],
      [["x", "--auth", "none", "--auth=false", "--password=yes", "--token", "true", "-pass", "1"]],
      [["x", "--token-file", "path", "--password-file=path", "--secret-name", "n", "--api-key-header", "X-Key"]],
      [["x", "--key-size", "4096", "--author", "ann", "--keyboard", "us", "--tokenizer", "t", "--max-tokens", "100"]],
      [["x", "--passes", "3", "--bypass", "cache", "--compass", "n", "--authority", "a", "--auth-type", "basic"]],
      [["x", "--key", "name", "--sort-key=2", "--public-key", "p", "--ssh-key", "p", "--key-id", "k"]],
      [["docker", "login", "--password-stdin", "registry", "-p", "5432", "-k", "v"]],
      [["env", "AWS_SECRET_ACCESS_KEY=‹s›", "DB_PASSWORD=‹correct horse; battery›", "GITHUB_TOKEN=‹t›", "cmd"]],
      [["env", "GITHUB_TOKEN_PROD=‹t›", "API_KEY=‹k›", "PGPASSWORD=‹p›", "MYSQL_PWD=‹p›", "DB_PASS_2=‹p›", "x"]],
      [["env", "SECRET_KEY_BASE=‹s›", "DD_APP_KEY=‹k›", "GITHUB_PAT=‹t›", "RABBITMQ_DEFAULT_PASS=‹p›", "x"]],
      [["env", "MONKEY=m", "KEYBOARD=us", "TOKENIZERS_PARALLELISM=false", "PWD=/home/a", "OLDPWD=/", "AUTHOR=a", "x"]],
      [[
        "env",
        "SSH_AUTH_SOCK=/tmp/s",
        "XAUTHORITY=/x",
        "SSH_ASKPASS=/usr/bin/a",
        "TOKEN_FILE=/t",
        "MAX_TOKENS=9",
        "x"
      ]],
      [["env", "ALLOW_EMPTY_PASSWORD=yes", "AWS_ACCESS_KEY_ID=id", "PASSWORD_STORE_DIR=/p", "AUTH_URL=u", "x"]],
      [["docker", "run", "-e", "TOKEN=‹a b›", "--env", "TOKEN=‹a b›", "--env=TOKEN=‹ab›", "-eTOKEN=‹ab›"]],
      [["helm", "--set", "auth.password=‹x›,‹replicas=2›".replace("›,‹", ","), "--set", "auth.enabled=true"]],
      [["sh", "-c", "DB_PASSWORD='‹a b›' ./run --token ‹t› --verbose && echo \"done\""]],
      [["bash", "-lc", "export TOKEN=‹abc›; curl -H \"X-Api-Key: ‹k k›\" https://host/"]],
      [["sh", "-c", "env A=1 API_TOKEN=\"‹a \\\" b›\" B=2 cmd"]],
      [["sh", "-c", "PASSWORD= ./run next", "--", "token"]],
      [["curl", "-H", "Authorization: Bearer ‹abc›", "-H", "X-Api-Key: ‹a b›", "-H", "Accept: text/html"]],
      [["curl", "--header", "authorization: ‹Digest username=\"u\", response=\"r\"›", "-H", "Cookie: ‹a=b; c=d›"]],
      [["curl", "--header=PRIVATE-TOKEN: ‹t›", "-d", "{\"user\":\"u\",\"password\":\"‹p \\\" q›\",\"n\":1}"]],
      [["git", "clone", "https://user:‹pw›@host/a.git", "git@host:path", "ssh://git@host:22/a"]],
      [["tool", github, jwt].map((arg) => arg === "tool" ? arg : `‹${arg}›`)],
      [["ssh-add", `‹${pem("")}›`]],
      [[]]
    ])("%j", (marked) => {
      assert.deepStrictEqual(argv(marked.map(given)), marked.map(left))
      assert.deepStrictEqual(argv(marked.map(left)), marked.map(left))
    })

    it("gives a new array and leaves the old one as it was", () => {
      const args = ["--token", "t"]
      assert.deepStrictEqual(argv(Object.freeze(args)), ["--token", "[redacted]"])
      assert.deepStrictEqual(args, ["--token", "t"])
    })
  })

  describe("text", () => {
    it.each([
      // Assignments
      "DB_PASSWORD=‹hunter2›",
      "A=1 GITHUB_TOKEN=‹abc› B=2",
      "password = ‹hunter2›\nuser = bob",
      "password = \"‹two words›\"  # note",
      "PASSWORD='‹a b›', next",
      "PASSWORD=‹'it'\\''s'›".replace("‹'", "'‹").replace("'›", "›'"),
      "PASSWORD=‹ab'c d'ef› next",
      "PASSWORD=‹\"a\"b›;x",
      "(with TOKEN=‹abc›), then",
      "{\"cmd\":\"TOKEN=‹abc›\",\"x\":1}",
      "sh -c \"TOKEN=‹abc›\" && echo \"hi\"",
      "token=‹abc›&user=bob",
      "Server=x;Password=‹p›;User=y",
      "user[password]=‹p›&x=1 user%5Bpassword%5D=‹p›&x=1",
      "//registry.npmjs.org/:_authToken=‹abc›",
      "token := \"‹abc›\"",
      "{:password=>\"‹p q›\", \"token\" => \"‹t›\"}",
      "TOKEN='‹never closed\nnext line".replace("\n", "›\n"),
      "password=‹ab,cd#ef!›",
      // Flags
      "mysql --password ‹hunter2› db",
      "mysql --password \"‹correct horse›\" db",
      "tool --token \\\n  ‹abc› --verbose",
      "spawn tool failed, spawnargs: [ 'a', '--password', '‹a b›', '--host', 'h' ]",
      "[\"tool\",\"--api-key\",\"‹k›\"]",
      "{\"argv\":\"[\\\"--token\\\",\\\"‹t›\\\"]\"}",
      // Fields
      "{\"password\": \"‹p›\", \"user\": \"u\", \"apiKey\":\"‹k›\"}",
      "{\\\"password\\\":\\\"‹p q›\\\",\\\"n\\\":1}",
      "{ password: '‹p›', token: '‹t›', nested: { secret: \"‹s›\" } }",
      "db:\n  host: h\n  password: ‹p›\n  port: 1",
      "- token: ‹t›",
      "{'auth': {'token': '‹t›', 'type': 'x'}}",
      // Headers
      "Authorization: Bearer ‹abc.def›",
      "authorization: Basic ‹dXNlcjpwdw==›",
      "Authorization: ‹Digest username=\"u\", response=\"r\"›\nHost: h",
      "> Proxy-Authorization: token ‹t›\n> Host: h",
      "curl -H 'X-Api-Key: ‹a b›' -H \"Private-Token: ‹t›\" https://h/",
      "Set-Cookie: ‹sid=1; Path=/›\nHost: h",
      "{ headers: { authorization: 'Bearer ‹abc›', 'x-api-key': '‹k›' } }",
      "got Bearer ‹abcDEF123› from it",
      "bearer ‹abc123def456›.",
      "{\"headers\":{\"Authorization\":[\"Bearer ‹abc›\"]}}",
      // URLs
      "https://user:‹pw›@host/path",
      "postgres://u:‹p@ss›@host:5432/db?sslmode=require",
      "postgres://u:‹p/w›@host/db",
      "redis://:‹pw›@host:6379/0",
      "mongodb://u:‹p›@h1:27017,h2:27017/db",
      "amqp://u:‹12345›@host",
      "proxy http://u:‹p›@proxy:3128, then https://v:‹q›@host",
      "https://h/?access_token=‹abc›&x=1",
      "https://h/a?x=1&client_secret=‹abc› and https://h/?sig=‹a%2Fb›&se=1",
      "https://h/a?X-Amz-Signature=‹abc›&X-Amz-Date=1",
      // Private keys
      `a\n‹${pem("")}›\nb`,
      `‹${pem("RSA ")}›${"x"}‹${pem("OPENSSH ")}›`,
      `{"key":"‹${pem("EC ").replaceAll("\n", "\\n")}›"}`,
      "a ‹-----BEGIN PRIVATE KEY-----\nMIIE\nMIIE",
      "failed: ‹MIIE\nMIIE\n-----END RSA PRIVATE KEY-----›\nbye",
      "‹-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----›",
      // Shapes
      `use ‹${github}›, please`,
      `‹github_pat_${digits}›`,
      `‹ghs_123_${jwt}›.`,
      `(‹${jwt}›)`,
      `‹glpat-${digits.slice(0, 20)}› ‹npm_${digits.slice(0, 36)}› ‹AIza${digits.slice(0, 35)}›`,
      `‹xoxb-123456789012-${digits}› ‹xapp-1-${digits}›`,
      `https://hooks.slack.com/services/‹T000/B000/${digits}›`,
      `‹sk-${digits}› ‹sk-${"abcdefghijklmnopqrst"}› ‹sk-proj-${digits}_-x› ‹sk_live_${digits}›`,
      `id ‹${awsId}› and`,
      `‹${awsId}:${awsSecret}›`,
      `‹SG.${digits.slice(0, 22)}.${digits}›`
    ])("%j", (marked) => {
      const closed = marked.split("‹").length > marked.split("›").length ? `${marked}›` : marked
      assert.strictEqual(text(given(closed)), left(closed))
      assert.strictEqual(text(left(closed)), left(closed))
    })

    it.each([
      "",
      "\n",
      "a quick brown fox = 1",
      "git@host:path/a.git",
      "https://host:8080/",
      "https://host:8080/@scope/pkg a@b.c",
      "https://[::1]:8080/a@b",
      "https://user@host/ ssh://git@host:22/x",
      "https://host/a?page=2&key=name&sort=token",
      "mail bob@example.com: hello",
      "kafka://a:9092,b:9092/t@x",
      "file:///a:b/c",
      "max_tokens=100 --max-tokens 100 token_count: 5 {\"token_type\": \"x\"}",
      "--no-password next --ask-pass next",
      "error: option --password requires an argument",
      "error: unknown option '--token'",
      "See --token for details, or --password-file; --password and --token are secrets",
      "usage: tool --password <password> [--token=<token>] --secret (required)",
      "missing --token --verbose",
      "SyntaxError: Unexpected token: }",
      "Unexpected token 'a', \"abc\" is not valid JSON",
      "invalid token: expected a string",
      "bash: line 1: GITHUB_TOKEN: unbound variable",
      "GITHUB_TOKEN is not set",
      "Password: ",
      "password:\n",
      "if (token == null || password === other) return",
      "const f = (token) => token",
      "{\"password\": null, \"auth\": {\"user\": \"u\"}, \"secret\": false, \"token\": \"\"}",
      "PASSWORD= ./run",
      "PASSWORD=, TOKEN=; SECRET=\"\"",
      "DISABLE_AUTH=true TOKENIZERS_PARALLELISM=false MONKEY=x KEYBOARD=us PWD=/x",
      "npm_config_registry=https://registry.npmjs.org npm_lifecycle_event=test",
      "WWW-Authenticate: Bearer realm=\"x\"",
      "the bearer token is missing; Bearer authentication is required",
      "scikit: sk-learn-contrib-estimators task-runner-long-name-123456",
      "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
      "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
      "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      "20261130T142233123Z-k3f9x2mq in /home/ann/.local/state/leasehold",
      "commit 1144032a80be14003737d61e83768a0d 3a1128c",
      "ls: cannot access 'secret': No such file or directory",
      "cat: my-secret: Permission denied",
      "C:\\Users\\ann\\token.txt:12:3",
      "key: value; sort-key=2 --key-size 4096 --author=ann",
      "Command failed with exit code 1: tsc -p . --pretty",
      "emoji 🔑 = 🔒, lone \ud800 surrogate",
      "[redacted] [redacted][redacted] [redact] redacted]"
    ])("%j is left alone", (plain) => {
      assert.strictEqual(text(plain), plain)
    })
  })

  describe("callers' patterns", () => {
    it.each<[RegExp, string, string]>([
      [/ACME-\d+/, "ACME-1 and ACME-22", "[redacted] and [redacted]"],
      [/ACME-\d+/g, "ACME-1 and ACME-22", "[redacted] and [redacted]"],
      [/ACME-\d+/y, "x ACME-1 and ACME-22", "x [redacted] and [redacted]"],
      [/acme-\d+/dgiy, "x ACME-1", "x [redacted]"],
      [/user (?<secret>\w+) of (?<firm>\w+)/, "user ann of acme", "user [redacted] of acme"],
      [/user(?: (?<secret>\d+))?/, "user ann", "user ann"],
      [/(?=(?<secret>abc))/, "abcd", "[redacted]d"],
      [/(?:)/, "abc", "abc"],
      [/x*/, "abxxc", "ab[redacted]c"],
      [/^/gm, "a\nb", "a\nb"],
      [/\b/y, "a b", "a b"],
      [/redacted|e/, "[redacted] e", "[redacted] [redacted]"],
      [/^./, "abc", "[redacted]bc"],
      [/.$/, "abc", "ab[redacted]"],
      [/\p{L}+/u, "1é2", "1[redacted]2"],
      [new RegExp(String.raw`[\p{L}--a]`, "v"), "ab", "a[redacted]"],
      [/(?<=\])b|ab/, "abbb", "[redacted][redacted][redacted]"],
      [/[^]*/, "all\nof it", "[redacted]"]
    ])("%s on %j", (pattern, given, expected) => {
      const redactor = Redaction.make({ patterns: [pattern] })
      pattern.lastIndex = 3
      const { flags, lastIndex, source } = pattern
      assert.strictEqual(redactor.text(given), expected)
      assert.strictEqual(redactor.text(expected), expected)
      assert.deepStrictEqual(redactor.argv(["x1", given]).at(1), expected)
      assert.deepStrictEqual([pattern.flags, pattern.lastIndex, pattern.source], [flags, lastIndex, source])
    })

    it("add to the standard ones, and overlapping finds become one", () => {
      const redactor = Redaction.make({ patterns: [/hunter2 and/, /\d and more/] })
      assert.strictEqual(redactor.text("--password hunter2 and more TOKEN=x"), "--password [redacted] TOKEN=[redacted]")
      assert.strictEqual(Redaction.make({ patterns: undefined }).text("TOKEN=x"), "TOKEN=[redacted]")
    })
  })

  // Pieces that mean something to a rule, so that random texts are full of half-made secrets.
  const pieces = Arbitrary.schema(Schema.Array(Schema.Literals([
    ...Array.from("=:;,&?@/\\\"'` \n-[]{}()<>|$#.a1"),
    ..."token PASSWORD auth -- --secret -c -H api-key x-api-key cookie sig true the :// u:p@h Bearer redacted".split(
      " "
    ),
    ..."sk- ghp_ eyJabcdefgh1. [redacted] \\\" ==> Authorization: %5D= --password= A_TOKEN= token:".split(" "),
    ...`-----BEGIN PRIVATE KEY-----|-----END PRIVATE KEY-----|${digits}|${github}|${awsId}|${awsSecret}|${jwt}`.split(
      "|"
    )
  ])))

  it.effect.prop(
    "what is plain and short looks the same in a text that is neither",
    [pieces],
    ([parts]) =>
      Effect.sync(() => {
        const plain = parts.join("").replaceAll(/[^\w./-]/g, "").slice(0, 14)
        const rest = `\n${"x ".repeat(10)}`
        assert.strictEqual(text(plain + rest), text(plain) + rest)
      }),
    { arbitrary: { runs: 1000, size: 14 } }
  )

  it.effect.prop("redacting twice is redacting once", [pieces], ([parts]) =>
    Effect.sync(() => {
      const once = text(parts.join(""))
      assert.strictEqual(text(once), once)
      const args = argv(parts)
      assert.deepStrictEqual(argv(args), args)
      assert.strictEqual(args.length, parts.length)
    }), { arbitrary: { runs: 5000, size: 14 } })

  it.effect.prop("any text at all", [Schema.String, Schema.Array(Schema.String)], ([any, parts]) =>
    Effect.sync(() => {
      assert.strictEqual(text(text(any)), text(any))
      assert.deepStrictEqual(argv(argv(parts)), argv(parts))
    }), { arbitrary: { runs: 500 } })

  it.effect.prop("a secret after its name is gone, whatever it is", [Schema.String], ([any]) =>
    Effect.sync(() => {
      const secret = `s${any}s`
      assert.deepStrictEqual(argv(["--password", secret, `--token=${secret}`, `DB_PASS=${secret}`]), [
        "--password",
        "[redacted]",
        "--token=[redacted]",
        "DB_PASS=[redacted]"
      ])
      assert.strictEqual(text(`x ${JSON.stringify({ password: secret })} y`), `x {"password":"[redacted]"} y`)
    }), { arbitrary: { runs: 500 } })

  describe("256 KiB of anything is done long before the time of a test is over", () => {
    const mega = (part: string) => part.repeat(Math.ceil(2 ** 18 / part.length))
    it.each([
      ..."a=\"'`-. \n\\:@/[]{A1_",
      ..."ab,a ,a=,a: ,\\\",=\",a\"b,a'b\",--,--a ,--a=,a.,ab-,- : ".split(","),
      "-----BEGIN",
      "-----BEGIN ",
      "-----BEGIN PRIVATE KEY",
      "-----END PRIVATE KEY-----",
      "-----BEGIN RSA PRIVATE KEY-----\n",
      "TOKEN=",
      "TOKEN='",
      "TOKEN=\"",
      "TOKEN=\\\"",
      "TOKEN=\"\n",
      "TOKEN='a'",
      "TOKEN=a\"b",
      "TOKEN=a\"b\n",
      "TOKEN=a'b\"c\n",
      "TOKEN=,",
      "TOKEN=true ",
      "TOKEN ",
      "TOKEN  = ",
      "TOKEN: ",
      "TOKEN:\n",
      "\"TOKEN\":",
      "\\\"x-token: a\n",
      "\"x-token: a",
      "Authorization: ",
      "Authorization: \n",
      "cookie: a ",
      "--token ",
      "--token \\\n",
      "\"--token\",",
      "Bearer ",
      "Bearer a",
      "Bearer abcd1",
      "://",
      "://a:",
      "://a:b",
      "://a:b@",
      "://a:b/",
      "://a:b\n",
      "?sig=a&",
      "eyJ",
      "_eyJ",
      "eyJaaaaaaaa.",
      "sk-",
      "-sk-a",
      "ghp_",
      "-ghp_",
      "SG.aaaaaaaaaaaaaaaa-",
      "AKIA",
      "xoxb-",
      "[redacted]",
      "[redacted]a",
      "passwordtoken",
      "🔑"
    ])("%j", (part) => {
      const input = mega(part)
      assert.isAtMost(text(input).length, input.length * 12)
      const small = input.slice(0, 20_000)
      for (const mixed of [small, `TOKEN="${small}`, `${small}@ x`, `${small}-----END PRIVATE KEY-----`]) {
        assert.strictEqual(text(text(mixed)), text(mixed))
      }
    })

    it("very long runs do not overflow the engine's stack", () => {
      for (const run of ["a", "\"", "\\", "=", "ghp_a1", " "]) {
        const input = run.repeat(10_000_000 / run.length)
        assert.isString(text(`TOKEN=${input}`))
      }
    })
  })
})
