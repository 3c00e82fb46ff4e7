// A user of kafkajs, with its defaults. See tests/kafka/programs.py for the scenarios.
'use strict'

const {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  CompressionTypes,
  ConfigResourceTypes,
  Kafka,
  logLevel,
  ResourcePatternTypes,
} = require('kafkajs')

const RECORDS = 200

const scenarios = {
  async admin(kafka, topic) {
    const admin = kafka.admin()
    await admin.connect()
    const configEntries = [{ name: 'retention.ms', value: '3600000' }]
    await admin.createTopics({ topics: [{ topic, numPartitions: 3, configEntries }], waitForLeaders: true })
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }],
    })
    await admin.deleteTopics({ topics: [topic] })
    const left = (await admin.listTopics()).includes(topic)
    await admin.disconnect()
    return { partitions: topics[0].partitions.length, config: resources[0].configEntries[0].configValue, left }
  },

  async administer(kafka, topic, retentionMs) {
    const admin = kafka.admin()
    await admin.connect()
    const topicOnly = { resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }], includeSynonyms: true }
    const brokerOnly = {
      resources: [{ type: ConfigResourceTypes.BROKER, name: '1', configNames: ['log.retention.ms'] }],
      includeSynonyms: true,
    }
    const configured = (name, value) => ({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries: [{ name, value }] }],
    })
    const brokerConfigured = (configEntries) => ({
      resources: [{ type: ConfigResourceTypes.BROKER, name: '1', configEntries }],
    })
    // Kafka's broker learns of a change a moment after the controller made it.
    const awaitBroker = async () => {
      for (;;) {
        const described = await admin.describeConfigs(brokerOnly)
        if (described.resources[0].configEntries[0].configValue === retentionMs) return described
      }
    }
    const acl = {
      resourceType: AclResourceTypes.TOPIC,
      resourceName: topic,
      resourcePatternType: ResourcePatternTypes.LITERAL,
      principal: 'User:a',
      host: '*',
      operation: AclOperationTypes.READ,
      permissionType: AclPermissionTypes.ALLOW,
    }
    const partitions = [{ partition: 0, offset: '0' }]
    const configEntries = [{ name: 'retention.ms', value: '3600000' }]
    const wanted = { topics: [{ topic, numPartitions: 2, configEntries }], waitForLeaders: true }
    const steps = {
      create: () => admin.createTopics(wanted),
      'create again': () => admin.createTopics(wanted),
      'add partitions': () => admin.createPartitions({ topicPartitions: [{ topic, count: 4 }] }),
      'remove partitions': () => admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] }),
      alter: () => admin.alterConfigs(configured('segment.bytes', '2097152')),
      'alter wrongly': () => admin.alterConfigs(configured('compression.type', 'odd')),
      'alter broker': () => admin.alterConfigs(brokerConfigured([{ name: 'log.retention.ms', value: retentionMs }])),
      'broker configs': awaitBroker,
      'describe topic': () => admin.fetchTopicMetadata({ topics: [topic] }),
      configs: () => admin.describeConfigs(topicOnly),
      'reset broker': () => admin.alterConfigs(brokerConfigured([])),
      cluster: () => admin.describeCluster(),
      acls: () => admin.describeAcls(acl),
      'create acls': () => admin.createAcls({ acl: [acl] }),
      'delete acls': () => admin.deleteAcls({ filters: [acl] }),
      'alter offsets': () => admin.setOffsets({ groupId: topic, topic, partitions }),
      'reset offsets': () => admin.resetOffsets({ groupId: topic, topic, earliest: true }),
      groups: async () => (await admin.listGroups()).groups.filter((each) => each.groupId === topic),
      group: () => admin.describeGroups([topic]),
      offsets: () => admin.fetchOffsets({ groupId: topic, topics: [topic] }),
      'delete group': () => admin.deleteGroups([topic]),
      ends: () => admin.fetchTopicOffsets(topic),
      'delete records': () => admin.deleteTopicRecords({ topic, partitions }),
      delete: () => admin.deleteTopics({ topics: [topic] }),
    }
    const seen = {}
    for (const [name, step] of Object.entries(steps)) {
      seen[name] = await step().then((answer) => answer ?? null, (error) => `${error.name}: ${error.message}`)
    }
    await admin.disconnect()
    return seen
  },

  async produce(kafka, topic, codec, kind) {
    const producer = kafka.producer({ idempotent: kind === 'idempotent' })
    await producer.connect()
    const compression = { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[codec]
    const messages = [...Array(RECORDS).keys()].map((number) => ({
      key: `key ${number}`,
      value: `value ${number} `.repeat(20),
    }))
    const answers = await producer.send({ topic, messages, compression })
    await producer.disconnect()
    // There is one response for each partition; it does not say where each record is.
    return { bases: answers.map((each) => [each.partition, Number(each.baseOffset)]) }
  },

  async group(kafka, topic, protocol, count) {
    const consumer = kafka.consumer({ groupId: topic })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    const records = []
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error))
      const eachMessage = async ({ partition, message }) => {
        // Records after the last expected one are not committed.
        if (records.length < count) {
          records.push([partition, Number(message.offset), message.key.toString(), message.value.toString()])
        }
        if (records.length === Number(count)) resolve()
      }
      consumer.run({ eachMessage, autoCommit: false }).catch(reject)
    })
    const ends = new Map()
    for (const [partition, offset] of records) ends.set(partition, Math.max(offset + 1, ends.get(partition) || 0))
    await consumer.commitOffsets([...ends].map(([partition, offset]) => ({ topic, partition, offset: `${offset}` })))
    console.log(JSON.stringify({ records }))
    await new Promise((resolve) => process.stdin.on('end', resolve).resume())
    await consumer.disconnect()
  },

  async transactions(kafka, topic) {
    const options = { transactionalId: topic, idempotent: true, maxInFlightRequests: 1 }
    const producer = kafka.producer(options)
    await producer.connect()
    const messages = (word) => [...Array(10).keys()].map((number) => ({ value: `${word} ${number}` }))
    const kept = await producer.transaction()
    await kept.send({ topic: `${topic}-out`, messages: messages('kept') })
    const topics = [{ topic, partitions: [{ partition: 0, offset: '5' }] }]
    await kept.sendOffsets({ consumerGroupId: topic, topics })
    await kept.commit()
    const dropped = await producer.transaction()
    await dropped.send({ topic: `${topic}-out`, messages: messages('dropped') })
    await dropped.abort()
    const other = kafka.producer(options)
    await other.connect()
    await (await other.transaction()).abort()
    try {
      const fenced = await producer.transaction()
      await fenced.send({ topic: `${topic}-out`, messages: [{ value: 'fenced' }] })
      await fenced.commit()
      return {}
    } catch (error) {
      return { offset: 5, fenced: error.type }
    }
  },

  async mistake(kafka, topic, kind) {
    try {
      if (kind === 'bad config') {
        const admin = kafka.admin()
        await admin.connect()
        const configEntries = [{ name: 'compression.type', value: 'odd' }]
        await admin.createTopics({ topics: [{ topic, configEntries }] })
      } else {
        const producer = kafka.producer({ allowAutoTopicCreation: false, retry: { retries: 1 } })
        await producer.connect()
        await producer.send({ topic, messages: [{ value: Buffer.alloc(5000) }] })
      }
      return {}
    } catch (error) {
      const cause = error.errors ? error.errors[0] : error.cause && error.cause.code ? error.cause : error
      return { error: cause.code, text: cause.message }
    }
  },
}

async function main([bootstrap, scenario, ...rest]) {
  const kafka = new Kafka({ brokers: [bootstrap], logLevel: logLevel.NOTHING })
  const seen = await scenarios[scenario](kafka, ...rest)
  if (seen) console.log(JSON.stringify(seen))
  process.exit(0)
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error)
  process.exit(1)
})
