// Commands, files, watched folders, terminals and git, by the JavaScript client.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { CommandExitError, FileNotFoundError, InvalidArgumentError, NotFoundError, TimeoutError } from 'e2b'
import { Sandbox } from '@e2b/code-interpreter'

let sandbox
before(async () => { sandbox = await Sandbox.create() })
after(() => sandbox.kill())

test('commands', async () => {
  const heard = []
  const result = await sandbox.commands.run('echo out; echo err >&2; pwd; whoami', { onStdout: (data) => { heard.push(data) } })
  assert.equal(result.stdout, 'out\n/home/user\nuser\n')
  assert.equal(result.stderr, 'err\n')
  assert.equal(heard.join(''), result.stdout)
  await assert.rejects(sandbox.commands.run('exit 4'), (problem) => problem instanceof CommandExitError && problem.exitCode === 4)
  await assert.rejects(sandbox.commands.run('sleep 60', { timeoutMs: 300 }), TimeoutError)
  assert.equal((await sandbox.commands.run('whoami; echo $X', { user: 'root', envs: { X: 'y' } })).stdout, 'root\ny\n')
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
  assert.ok((await sandbox.commands.list()).some((one) => one.pid === cat.pid))
  await sandbox.commands.sendStdin(cat.pid, 'Hello,\nWörld!')
  await sandbox.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'Hello,\nWörld!')
  const sleep = await sandbox.commands.run('sleep 60', { background: true })
  await sleep.disconnect()
  const again = await sandbox.commands.connect(sleep.pid)
  assert.equal(await again.kill(), true)
  await assert.rejects(again.wait(), CommandExitError)
  assert.equal(await sandbox.commands.kill(sleep.pid), false)
  await assert.rejects(sandbox.commands.connect(999999), NotFoundError)
})

test('files', async () => {
  const info = await sandbox.files.write('new/a.txt', 'Hällo')
  assert.equal(info.path, '/home/user/new/a.txt')
  assert.equal(await sandbox.files.read('new/a.txt'), 'Hällo')
  assert.equal((await sandbox.files.read('new/a.txt', { format: 'bytes' })).length, 6)
  assert.equal(await (await sandbox.files.read('new/a.txt', { format: 'blob' })).text(), 'Hällo')
  let size = 0
  for await (const piece of await sandbox.files.read('new/a.txt', { format: 'stream' })) size += piece.length
  assert.equal(size, 6)
  const many = await sandbox.files.write([{ path: 'new/b', data: new Blob(['1']) }, { path: 'new/c', data: new Uint8Array([50]).buffer }])
  assert.deepEqual(many.map((one) => one.name), ['b', 'c'])
  await sandbox.commands.run('touch new/empty; ln -s a.txt new/link')
  assert.equal(await sandbox.files.read('new/empty'), '')
  assert.deepEqual((await sandbox.files.list('new')).map((one) => one.name), ['a.txt', 'b', 'c', 'empty', 'link'])
  const link = await sandbox.files.getInfo('new/link')
  assert.deepEqual([link.type, link.symlinkTarget], ['file', '/home/user/new/a.txt'])
  assert.deepEqual([await sandbox.files.makeDir('new/d'), await sandbox.files.makeDir('new/d')], [true, false])
  assert.equal((await sandbox.files.rename('new/b', 'new/d/b')).path, '/home/user/new/d/b')
  await sandbox.files.remove('new/d')
  assert.equal(await sandbox.files.exists('new/d'), false)
  await assert.rejects(sandbox.files.read('nowhere'), FileNotFoundError)
  await assert.rejects(sandbox.files.read('new'), InvalidArgumentError)
  const noted = await sandbox.files.write('noted', '1', { metadata: { author: 'me' } })
  assert.deepEqual([noted.metadata, (await sandbox.files.getInfo('noted')).metadata], [{ author: 'me' }, { author: 'me' }])
})

test('signed addresses', async () => {
  const form = new FormData()
  form.append('file', new Blob(['sent']), 'ignored')
  const sent = await fetch(await sandbox.uploadUrl('up.txt'), { method: 'POST', body: form })
  assert.equal((await sent.json())[0].path, '/home/user/up.txt')
  const read = await fetch(await sandbox.downloadUrl('up.txt', { useSignatureExpiration: 60 }))
  assert.equal(await read.text(), 'sent')
})

test('watched folders', async () => {
  const events = []
  await sandbox.files.makeDir('w')
  const written = new Promise((resolve) => { events.resolve = resolve })
  const handle = await sandbox.files.watchDir('w', (event) => {
    events.push(`${event.type} ${event.name}`)
    if (event.type === 'write') events.resolve()
  }, { recursive: true })
  await sandbox.files.makeDir('w/x')
  await sandbox.files.write('w/x/y', '1')
  await written
  assert.deepEqual([...events], ['create x', 'create x/y', 'chmod x/y', 'write x/y'])
  await handle.stop()
  await assert.rejects(sandbox.files.watchDir('nowhere', () => {}), FileNotFoundError)
})

test('terminals', async () => {
  let shown = ''
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: (data) => { shown += new TextDecoder().decode(data) } })
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 })
  await sandbox.pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; exit\n'))
  assert.equal((await terminal.wait()).exitCode, 0)
  assert.match(shown, /30 100/)
  assert.equal(await sandbox.pty.kill(terminal.pid), false)
})

test('git', async () => {
  await sandbox.git.init('repository', { initialBranch: 'main' })
  await sandbox.files.write('repository/a', '1')
  await sandbox.git.add('repository')
  await sandbox.git.commit('repository', 'the first', { authorName: 'me', authorEmail: 'me@example.com' })
  const status = await sandbox.git.status('repository')
  assert.deepEqual([status.currentBranch, status.fileStatus], ['main', []])
})

test('a sandbox that is killed takes its commands along', async () => {
  const other = await Sandbox.create()
  const command = await other.commands.run('sleep 60', { background: true })
  await other.kill()
  await assert.rejects(command.wait(), (problem) => !(problem instanceof CommandExitError) && /end of life/.test(problem.message))
})
