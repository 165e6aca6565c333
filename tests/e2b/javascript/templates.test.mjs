// Templates of E2B's client for JavaScript: built, tagged, found and started from.

import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { BuildError, Sandbox, Template, TemplateError, waitForPort } from 'e2b'

const names = []
const newName = () => {
  names.push(`check-${randomUUID().slice(0, 12)}`)
  return names.at(-1)
}
const context = mkdtempSync(join(tmpdir(), 'templates-'))

after(async () => {
  rmSync(context, { recursive: true })
  for (const name of names) {
    await fetch(`${process.env.E2B_API_URL}/templates/${name}`, {
      method: 'DELETE',
      headers: { 'X-API-KEY': process.env.E2B_API_KEY },
    })
  }
})

test('a template has its files, variables and command', async () => {
  mkdirSync(join(context, 'src'))
  writeFileSync(join(context, 'src', 'index.html'), 'served')
  writeFileSync(join(context, 'run.sh'), '#!/bin/sh\necho run $MODE\n')
  const name = newName()
  const lines = []
  const template = Template({ fileContextPath: context })
    .fromBaseImage()
    .copy('src', '/app/src')
    .copy('run.sh', '/app/run', { mode: 0o755 })
    .setEnvs({ MODE: 'fast' })
    .setWorkdir('/app')
    .runCmd(['echo one > made', 'echo two >> made'])
    .aptInstall('bash')
    .setStartCmd('python3 -m http.server 8125 --directory src', waitForPort(8125))
  const info = await Template.build(template, name, {
    tags: ['v1', 'default'],
    memoryMB: 384,
    cpuCount: 1,
    onBuildLogs: (line) => lines.push(line),
  })
  assert.deepEqual(info.tags, ['v1', 'default'])
  assert.ok(lines.some((line) => line.message === '$ COPY src /app/src' && line.level === 'info'))
  assert.ok(lines.every((line) => line.timestamp instanceof Date && !Number.isNaN(line.timestamp.getTime())))
  assert.equal(await Template.exists(name), true)
  assert.equal(await Template.exists(`${name}-not`), false)
  const sandbox = await Sandbox.create(name, { envs: { MORE: '1' } })
  try {
    const shown = await sandbox.commands.run('pwd; ./run; cat made; curl -s localhost:8125/; echo $MORE')
    assert.equal(shown.stdout, '/app\nrun fast\none\ntwo\nserved1\n')
    assert.equal((await sandbox.getInfo()).memoryMB, 384)
  } finally {
    await sandbox.kill()
  }
})

test('tags name builds, also those in the background', async () => {
  const name = newName()
  const info = await Template.buildInBackground(Template().fromPythonImage('3').runCmd('echo text'), `${name}:a`)
  let status = await Template.getBuildStatus(info)
  while (['waiting', 'building'].includes(status.status)) status = await Template.getBuildStatus(info)
  assert.equal(status.status, 'ready')
  assert.ok(status.logEntries.some((entry) => entry.message === 'text'))
  await Template.assignTags(`${name}:a`, ['b', 'c'])
  await Template.removeTags(name, 'c')
  assert.deepEqual((await Template.getTags(name)).map((tag) => tag.tag).sort(), ['a', 'b'])
  await assert.rejects(Template.removeTags(name, 'c'), TemplateError)
  await assert.rejects(Sandbox.create(name), /not found/)
})

test('a step that fails is named', async () => {
  const name = newName()
  const failing = Template().fromBaseImage().runCmd('true').runCmd('echo why >&2; exit 3')
  await assert.rejects(Template.build(failing, name), (error) => {
    assert.ok(error instanceof BuildError)
    assert.match(error.message, /why/)
    return true
  })
  await assert.rejects(Template.build(Template().fromAlpineImage(), name), /from_base_image/)
  await assert.rejects(Template.build(Template().fromBaseImage().aptInstall('no-such-package'), name), /no-such-package/)
})
